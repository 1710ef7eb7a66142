"""RunnerPool: CI runners for an installation at a version control service (section 2, "misc requests")."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, JsonValue
from pydantic.alias_generators import to_camel

from relay_client import Cloud, NotServed, Unauthorized, operations
from relay_operator.api.definition import RECORD_COLUMNS, Column, definition_of
from relay_operator.api.meta import CreateIntent, Resource
from relay_operator.api.references import SecretSource
from relay_operator.api.schema import rules
from relay_operator.api.workload import NEVER_STOPPED, SAME_ACCOUNT, ManagedSpec, ManagedStatus
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.managed.resource import InputRefs, Inputs
from relay_operator.kinds.comparison import differing, same_named
from relay_operator.kinds.records import NO_LIST
from relay_operator.kinds.secret_text import SecretText
from relay_operator.kinds.unlisted import MaybeUnlisted
from relay_wire.runner_pools import LONGEST_GRANT, RunnerPoolCreate
from relay_wire.runner_pools import RunnerPool as Pool

_GRANT: Final = SecretText("grantFrom")
_ALIKE: Final = ("installation_id", "pool_ram_gb", "disk_size_gb", "vcs_owner", "vcs_owner_type")
"""Fields with the same name in spec, request, answer and status: all that a pool has."""
_LARGEST_ID: Final = 9_223_372_036_854_775_000
"""The API server keeps a bound as a float: the largest 64-bit one that it shows as it was written."""
_Gigabytes: TypeAlias = Annotated[int, Field(ge=1, le=65_536)]
_Word: TypeAlias = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[!-~]+$")]


class RunnerPoolSpec(ManagedSpec):
    """Whose runners, and how large they are."""

    model_config = rules(SAME_ACCOUNT, NEVER_STOPPED)

    installation_id: int = Field(
        ge=1, le=_LARGEST_ID, description="The installation that the runners are for, as its service numbers it."
    )
    pool_ram_gb: _Gigabytes = Field(description="Memory of the pool in GB.")
    disk_size_gb: _Gigabytes | None = Field(None, description="Disk in GB. Absent: the cloud chooses.")
    vcs_owner: _Word | None = Field(None, description="Who owns the installation, as the service calls them.")
    vcs_owner_type: _Word | None = Field(None, description="What the owner is, in the cloud's word: `Organization`.")
    grant_from: SecretSource | None = Field(
        None, description="The proof that the account may use the installation, read from a Secret."
    )


class RunnerPoolStatus(ManagedStatus):
    """What the cloud says about one pool."""

    installation_id: int | None = Field(None, ge=0, description="The installation that it is for.")
    pool_ram_gb: int | None = Field(None, ge=0, description="Its memory in GB.")
    disk_size_gb: int | None = Field(None, ge=0, description="Its disk in GB.")
    vcs_owner: str | None = Field(None, max_length=253, description="Who owns the installation.")
    vcs_owner_type: str | None = Field(None, max_length=64, description="What the owner is.")


class RunnerPool(Resource[RunnerPoolSpec, RunnerPoolStatus]):
    """One pool."""

    kind: Literal["RunnerPool"] = "RunnerPool"


DEFINITION = definition_of(
    RunnerPool,
    "rpool",
    summary="CI runners for an installation at a version control service.",
    columns=(
        Column("Installation", ".spec.installationId", "integer"),
        Column("Owner", ".status.vcsOwner"),
        Column("RAM GB", ".status.poolRamGb", "integer"),
        Column("Disk GB", ".status.diskSizeGb", "integer"),
        *RECORD_COLUMNS,
    ),
)

Runners: TypeAlias = Resource[RunnerPoolSpec, RunnerPoolStatus]


class UnlistedPool(Pool):
    """A pool as it was created, from a cloud that shows no pool afterwards."""


class RunnerPools(MaybeUnlisted[RunnerPoolSpec, RunnerPoolStatus, Pool]):
    """How a RunnerPool maps to a pool of the organization."""

    definition = DEFINITION
    model = RunnerPool
    mirrored = _ALIKE
    noun = "pool"
    list_operation = operations.LIST_RUNNER_POOLS
    delete_operation = operations.DELETE_RUNNER_POOL

    async def create(self, cloud: Cloud, obj: Runners, intent: CreateIntent, inputs: Inputs) -> Pool:
        sent = {name: getattr(obj.spec, name) for name in _ALIKE}
        request = RunnerPoolCreate.model_validate({**sent, "name": intent.name, "grant": _GRANT.of(inputs) or None})
        made = await cloud.call(operations.CREATE_RUNNER_POOL, request)
        return made.model_copy(update={name: value for name, value in sent.items() if getattr(made, name) is None})

    async def living(self, cloud: Cloud, unclaimed: UnclaimedIds) -> Mapping[str, str]:
        """Reads the list although nobody has asked for it: a pool whose object is gone costs money all the same."""
        try:
            await self._lists.recent(cloud, lambda: self._listed(cloud))
        except Unauthorized as error:  # of a path that is assumed: other lists show whether the key is refused
            raise NotServed(error.operation, NO_LIST, status=error.status) from error
        return await super().living(cloud, unclaimed)

    def as_made(self, cloud_id: str, last: RunnerPoolStatus) -> Pool:
        told = {name: getattr(last, name) for name in _ALIKE}
        return UnlistedPool(id=cloud_id, **told)

    def input_refs(self, obj: Runners) -> InputRefs:
        source = obj.spec.grant_from
        return _GRANT.refs(None if source is None else source.secret_key_ref)

    def unusable(self, obj: Runners, inputs: Inputs) -> str | None:
        source, length = obj.spec.grant_from, len(_GRANT.of(inputs))
        if source is None or 0 < length <= LONGEST_GRANT:
            return None
        wrong = f"has more than {LONGEST_GRANT} characters" if length else "is empty"
        return _GRANT.refused(source.secret_key_ref, wrong)

    def immutable(self, obj: Runners) -> Mapping[str, JsonValue]:
        """Leaves out which Secret holds the grant, since only the grant itself matters."""
        return {to_camel(name): getattr(obj.spec, name) for name in _ALIKE}

    def differences(self, obj: Runners, observed: Pool) -> tuple[str, ...]:
        return differing(*same_named(obj.spec, observed, *_ALIKE))

    def detail(self, observed: Pool) -> str:
        if isinstance(observed, UnlistedPool):
            return f"the cloud made it as {observed.id}, and has no list by which to see whether it is still there"
        return super().detail(observed)
