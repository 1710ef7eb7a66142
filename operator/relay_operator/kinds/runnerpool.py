"""RunnerPool: CI runners for an installation at a version control service (section 2, "misc requests").

The cloud's description shows the create and nothing else, so that a cloud may lack the list and the end of pools. Then
what was made is taken to be there as it was made, and nothing but the cloud's own word for its end lets go of it.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, JsonValue

from relay_client import Cloud, CloudError, NotFound, NotServed, operations
from relay_operator.api import meta
from relay_operator.api.definition import RECORD_COLUMNS, Column, definition_of
from relay_operator.api.meta import CreateIntent, Resource
from relay_operator.api.references import SecretSource, ValueSource
from relay_operator.api.schema import rules
from relay_operator.api.workload import NEVER_STOPPED, SAME_ACCOUNT, ManagedSpec, ManagedStatus
from relay_operator.flows.managed.resource import InputRefs, Inputs, Look
from relay_operator.flows.wiring import Parts
from relay_operator.kinds.comparison import differing
from relay_operator.kinds.records import BY_HAND, UNSERVED, Records
from relay_wire.runner_pools import LONGEST_GRANT, RunnerPoolCreate
from relay_wire.runner_pools import RunnerPool as Pool

_UNSEEN: Final = f'there is no list that tells whether it is gone, so annotate {meta.ABANDON}="true" then'
_GRANT: Final = "grantFrom"
_ALIKE: Final = ("installation_id", "pool_ram_gb", "disk_size_gb", "vcs_owner", "vcs_owner_type")
"""Fields that are called the same in a spec, a request, an answer and status: all that a pool is."""
_LARGEST_ID: Final = 9_223_372_036_854_775_000
"""The API server keeps a bound as a float: of those that fit into 64 bits, the last that it shows as it is written."""
_Gigabytes: TypeAlias = Annotated[int, Field(ge=1, le=65_536)]
_Word: TypeAlias = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[!-~]+$")]


class RunnerPoolSpec(ManagedSpec):
    """Whose runners, and how large."""

    model_config = rules(SAME_ACCOUNT, NEVER_STOPPED)

    installation_id: int = Field(
        ge=1, le=_LARGEST_ID, description="The installation that the runners are for, as its service numbers it."
    )
    pool_ram_gb: _Gigabytes = Field(description="Memory of the pool in GB.")
    disk_size_gb: _Gigabytes | None = Field(None, description="Disk in GB. Absent: the cloud chooses.")
    vcs_owner: _Word | None = Field(None, description="Who owns the installation, as the service calls them.")
    vcs_owner_type: _Word | None = Field(None, description="What the owner is, in the cloud's word: `Organization`.")
    grant_from: SecretSource | None = Field(
        None, description="What proves that the account may use the installation, read from a Secret."
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
    status: RunnerPoolStatus = Field(default_factory=RunnerPoolStatus)


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
    """A pool as it was made, of a cloud that tells nothing of it since."""


class RunnerPools(Records[RunnerPoolSpec, RunnerPoolStatus, Pool]):
    """How a RunnerPool maps to a pool of the organization."""

    definition = DEFINITION
    model = RunnerPool
    mirrored = _ALIKE
    list_operation = operations.LIST_RUNNER_POOLS

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._ended: set[tuple[str, str]] = set()
        """Organizations and ids that the cloud said to have deleted."""

    async def observe(self, cloud: Cloud, cloud_id: str, last: RunnerPoolStatus, look: Look) -> Pool:
        try:
            return await super().observe(cloud, cloud_id, last, look)
        except NotServed as error:
            if last.id != cloud_id:
                raise
            if (await cloud.organization_id(), cloud_id) in self._ended:
                raise NotFound(error.operation, f"the cloud answered that it deleted the pool {cloud_id}") from error
            told = last.model_dump(include=set(_ALIKE), by_alias=False)
            return UnlistedPool(id=cloud_id, name=last.cloud_name, **told)

    async def create(self, cloud: Cloud, obj: Runners, intent: CreateIntent, inputs: Inputs) -> Pool:
        spec = obj.spec
        request = RunnerPoolCreate(
            installation_id=spec.installation_id,
            name=intent.name,
            pool_ram_gb=spec.pool_ram_gb,
            disk_size_gb=spec.disk_size_gb,
            vcs_owner=spec.vcs_owner,
            vcs_owner_type=spec.vcs_owner_type,
            grant=_grant(inputs) or None,
        )
        made = await cloud.call(operations.CREATE_RUNNER_POOL, request)
        sent = request.model_dump(include=set(_ALIKE), by_alias=False)
        return made.model_copy(update={name: value for name, value in sent.items() if getattr(made, name) is None})

    async def delete(self, cloud: Cloud, cloud_id: str) -> None:
        """Raises NotServed if the cloud has no such call, or if nothing tells what its 404 is about."""
        try:
            await cloud.call(operations.DELETE_RUNNER_POOL, id=cloud_id)
        except CloudError as error:
            if error.status not in UNSERVED:
                raise
            listed = await self._is_listed(cloud, cloud_id)
            if listed is False:
                raise NotFound(error.operation, f"the id {cloud_id} is not in the list", status=error.status) from error
            told = BY_HAND if listed else f"{BY_HAND}; {_UNSEEN}"
            raise NotServed(error.operation, told.format(cloud_id), status=error.status) from error
        self._ended.add((await cloud.organization_id(), cloud_id))

    async def _is_listed(self, cloud: Cloud, cloud_id: str) -> bool | None:
        """None: the cloud has no list."""
        try:
            return cloud_id in await self._listed(cloud)
        except NotServed:
            return None

    def input_refs(self, obj: Runners) -> InputRefs:
        source = obj.spec.grant_from
        if source is None:
            return InputRefs()
        return InputRefs(texts={_GRANT: ValueSource(secret_key_ref=source.secret_key_ref)})

    def unusable(self, obj: Runners, inputs: Inputs) -> str | None:
        source, length = obj.spec.grant_from, len(_grant(inputs))
        if source is None or 0 < length <= LONGEST_GRANT:
            return None
        wrong = f"has more than {LONGEST_GRANT} characters" if length else "is empty"
        ref = source.secret_key_ref
        return f"{_GRANT}: the key {ref.key} of the Secret {ref.name} {wrong}"

    def immutable(self, obj: Runners) -> Mapping[str, JsonValue]:
        """Which Secret has the grant does not matter: what is in it does."""
        spec = obj.spec
        return {
            "installationId": spec.installation_id,
            "poolRamGb": spec.pool_ram_gb,
            "diskSizeGb": spec.disk_size_gb,
            "vcsOwner": spec.vcs_owner,
            "vcsOwnerType": spec.vcs_owner_type,
        }

    def differences(self, obj: Runners, observed: Pool) -> tuple[str, ...]:
        spec = obj.spec
        return differing(
            ("installationId", spec.installation_id, observed.installation_id),
            ("poolRamGb", spec.pool_ram_gb, observed.pool_ram_gb),
            ("diskSizeGb", spec.disk_size_gb, observed.disk_size_gb),
            ("vcsOwner", spec.vcs_owner, observed.vcs_owner),
            ("vcsOwnerType", spec.vcs_owner_type, observed.vcs_owner_type),
        )

    def detail(self, observed: Pool) -> str:
        if isinstance(observed, UnlistedPool):
            return f"the cloud made it as {observed.id}, and has no list by which to see whether it is still there"
        return super().detail(observed)


def _grant(inputs: Inputs) -> str:
    return inputs.texts.get(_GRANT, "").strip()
