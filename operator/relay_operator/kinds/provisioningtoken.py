"""How a ProvisioningToken maps to a token of the organization, which must be a provider (section 4, "Providers")."""

from collections.abc import Mapping
from datetime import timedelta
from typing import TypeAlias

from pydantic import JsonValue

from relay_client import Cloud, operations
from relay_operator.api.meta import CreateIntent, Resource
from relay_operator.api.provisioningtoken import (
    DEFINITION,
    ProvisioningToken,
    ProvisioningTokenSpec,
    ProvisioningTokenStatus,
)
from relay_operator.flows.managed.resource import Inputs
from relay_operator.flows.managed.shown_once import Life, Place
from relay_operator.kinds.comparison import differing
from relay_operator.kinds.records import Records
from relay_operator.kinds.validity import end_of, expires
from relay_wire.provider import ProvisioningToken as IssuedToken
from relay_wire.provider import ProvisioningTokenCreate, ProvisioningTokenCreated

_KEY_IN_SECRET = "token"  # noqa: S105 - a name

Token: TypeAlias = Resource[ProvisioningTokenSpec, ProvisioningTokenStatus]


class ProvisioningTokens(Records[ProvisioningTokenSpec, ProvisioningTokenStatus, IssuedToken]):
    """How a ProvisioningToken maps to the cloud."""

    definition = DEFINITION
    model = ProvisioningToken
    mirrored = ("max_nodes", "used_nodes", "node_pool")
    list_operation = operations.LIST_PROVISIONING_TOKENS
    delete_operation = operations.REVOKE_PROVISIONING_TOKEN

    async def create(self, cloud: Cloud, obj: Token, intent: CreateIntent, inputs: Inputs) -> IssuedToken:
        wanted = ProvisioningTokenCreate.model_validate({"name": intent.name, **_asked(obj.spec)})
        made = await cloud.call(operations.CREATE_PROVISIONING_TOKEN, wanted)
        hours = obj.spec.expires_in_hours
        life = None if hours is None else timedelta(hours=hours)
        return made.model_copy(
            update={"expires_at": made.expires_at or end_of(made.created_at, intent.started_at, life)}
        )

    def kept_in(self, obj: Token) -> Place:
        return Place(obj.spec.secret_name, _KEY_IN_SECRET)

    def shown(self, observed: IssuedToken) -> str:
        return observed.token if isinstance(observed, ProvisioningTokenCreated) else ""

    def life(self, spec: ProvisioningTokenSpec, status: ProvisioningTokenStatus) -> Life:
        overlap, least = None, timedelta()
        if spec.renew_before_seconds is not None and spec.expires_in_hours is not None:
            overlap = timedelta(seconds=spec.renew_before_seconds)
            least = (timedelta(hours=spec.expires_in_hours) - overlap) / 2
        return Life(status.expires_at, overlap, least, "renewBeforeSeconds")

    def immutable(self, obj: Token) -> Mapping[str, JsonValue]:
        return _asked(obj.spec)

    def differences(self, obj: Token, observed: IssuedToken) -> tuple[str, ...]:
        asked = _asked(obj.spec)
        return differing(
            ("maxNodes", asked["maxNodes"], observed.max_nodes),
            ("nodeType", asked["nodeType"], observed.node_type),
            ("nodePool", asked["nodePool"], observed.node_pool),
        )

    def detail(self, observed: IssuedToken) -> str:
        if observed.used_nodes is None:
            return super().detail(observed)
        quota = f" of {observed.max_nodes}" if observed.max_nodes else ""
        return f"the cloud has it as {observed.id}; joined with it: {observed.used_nodes}{quota}"

    def told(self, obj: Token, observed: IssuedToken) -> Mapping[str, object]:
        return {**super().told(obj, observed), "expires_at": expires(obj.status, observed)}


def _asked(spec: ProvisioningTokenSpec) -> dict[str, JsonValue]:
    """What a create sends, with the specification's defaults."""
    return {
        "expiresInHours": spec.expires_in_hours,
        "maxNodes": spec.max_nodes or 0,
        "nodeType": spec.node_type,
        "nodePool": spec.node_pool or "community",
    }
