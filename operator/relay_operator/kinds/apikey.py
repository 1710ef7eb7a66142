"""ApiKey: an API key of the organization, kept in a Secret (section 2, "API key")."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, JsonValue

from relay_client import Cloud, operations
from relay_operator.api.definition import AGE, ID, READY, REASON, Column, definition_of
from relay_operator.api.meta import CreateIntent, Resource, Time
from relay_operator.api.parts import DAY
from relay_operator.api.references import ObjectName
from relay_operator.api.schema import as_set, rules
from relay_operator.api.workload import NEVER_STOPPED, SAME_ACCOUNT, SAME_SECRET, ManagedSpec, SupersedingStatus
from relay_operator.engine.fit_schema import moment
from relay_operator.flows.managed.resource import Inputs, Progress
from relay_operator.flows.managed.shown_once import Life, Place
from relay_operator.kinds.comparison import differing, in_order
from relay_operator.kinds.records import Records
from relay_operator.kinds.validity import end_of, expires
from relay_wire.api_keys import ApiKeyCreate, ApiKeySummary

_KEY_IN_SECRET = "api-key"  # noqa: S105 - a name
_USED_AGAIN = timedelta(hours=1)
"""How often status records the last use: a key may be used every second."""
_IN_TIME = (
    "!has(self.rotateBeforeSeconds) || has(self.expiresInSeconds) && self.rotateBeforeSeconds < self.expiresInSeconds",
    "rotateBeforeSeconds must be less than expiresInSeconds, which must be set",
)

Scope: TypeAlias = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[a-z][a-z0-9:._-]*$")]


class ApiKeySpec(ManagedSpec):
    """What the key gives access to, how long it lives, and which Secret holds it."""

    model_config = rules(SAME_ACCOUNT, NEVER_STOPPED, SAME_SECRET, _IN_TIME)

    scopes: list[Scope] = Field(
        min_length=1,
        max_length=32,
        json_schema_extra=as_set(),
        description="What the key may do: `clusters:read`, `clusters:write`, `vms:read`, `vms:write`, `inference` and "
        "others that the cloud knows; no more than the account's own key may.",
    )
    expires_in_seconds: int | None = Field(
        None, ge=1, le=10 * 366 * DAY, description="How long it is valid, from its creation. Absent: for ever."
    )
    rotate_before_seconds: int | None = Field(
        None,
        ge=1,
        le=10 * 366 * DAY,
        description="How long before it expires another replaces it in the Secret; the former one works until it "
        "expires, at most this long. Absent: it is not replaced.",
    )
    secret_name: ObjectName = Field(
        description="The Secret of this namespace that keeps the key, as `api-key`. The operator makes it, and it goes "
        "with this object. Cannot be changed later."
    )


class ApiKeyStatus(SupersedingStatus):
    """What the cloud says about one key."""

    prefix: str | None = Field(None, max_length=64, description="Its first characters, to tell keys apart.")
    expires_at: Time | None = Field(None, description="When it expires; absent: never.")
    last_used_at: Time | None = Field(None, description="When it was last used; up to an hour and a poll behind.")


class ApiKey(Resource[ApiKeySpec, ApiKeyStatus]):
    """One key."""

    kind: Literal["ApiKey"] = "ApiKey"


DEFINITION = definition_of(
    ApiKey,
    "akey",
    summary="A key to the organization, in a Secret of this namespace.",
    columns=(
        Column("Prefix", ".status.prefix"),
        Column("Secret", ".spec.secretName"),
        Column("Expires", ".status.expiresAt"),
        READY,
        AGE,
        REASON,
        Column("Used", ".status.lastUsedAt", "date", priority=1),
        ID,
    ),
)

Key: TypeAlias = Resource[ApiKeySpec, ApiKeyStatus]


class NewKey(ApiKeySummary):
    """An API key as the answer to its create shows it."""

    value: str = Field(repr=False)


class ApiKeys(Records[ApiKeySpec, ApiKeyStatus, ApiKeySummary]):
    """How an ApiKey maps to a key of the organization."""

    definition = DEFINITION
    model = ApiKey
    list_operation = operations.LIST_API_KEYS
    delete_operation = operations.REVOKE_API_KEY

    async def create(self, cloud: Cloud, obj: Key, intent: CreateIntent, inputs: Inputs) -> ApiKeySummary:
        lives = obj.spec.expires_in_seconds
        wanted = ApiKeyCreate(name=intent.name, scopes=sorted(obj.spec.scopes), expires_in_seconds=lives)
        made = await cloud.call(operations.CREATE_API_KEY, wanted)
        ends = end_of(made.created_at, intent.started_at, None if lives is None else timedelta(seconds=lives))
        return NewKey.model_validate({**dict(made), "expires_at": ends, "value": made.key})

    def scopes(self, obj: Key) -> Sequence[str]:
        return obj.spec.scopes

    def kept_in(self, obj: Key) -> Place:
        return Place(obj.spec.secret_name, _KEY_IN_SECRET)

    def shown(self, observed: ApiKeySummary) -> str:
        return observed.value if isinstance(observed, NewKey) else ""

    def life(self, spec: ApiKeySpec, status: ApiKeyStatus) -> Life:
        if spec.rotate_before_seconds is None or spec.expires_in_seconds is None:
            return Life(status.expires_at)
        least = (spec.expires_in_seconds - spec.rotate_before_seconds) / 2
        return Life(status.expires_at, timedelta(seconds=spec.rotate_before_seconds), timedelta(seconds=least))

    def immutable(self, obj: Key) -> Mapping[str, JsonValue]:
        return {"scopes": list[JsonValue](sorted(obj.spec.scopes)), "expiresInSeconds": obj.spec.expires_in_seconds}

    def differences(self, obj: Key, observed: ApiKeySummary) -> tuple[str, ...]:
        return differing(("scopes", in_order(obj.spec.scopes), in_order(observed.scopes)))

    def progress(self, observed: ApiKeySummary) -> Progress:
        return Progress.GONE if observed.revoked_at else Progress.READY

    def told(self, obj: Key, observed: ApiKeySummary) -> Mapping[str, object]:
        used, told = moment(observed.last_used_at), obj.status.last_used_at
        if told is not None and obj.status.id == observed.id and (used is None or used - told < _USED_AGAIN):
            used = told
        return {"prefix": observed.key_prefix, "expires_at": expires(obj.status, observed), "last_used_at": used}
