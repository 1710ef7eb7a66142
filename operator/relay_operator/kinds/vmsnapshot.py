"""VmSnapshot: the content of a GpuVm's disk at one moment (section 2, "Create snapshot"; all else is assumed)."""

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from pydantic import Field, JsonValue

from relay_client import Cloud, items_of, operations
from relay_operator.api.definition import RECORD_COLUMNS, Column, definition_of
from relay_operator.api.meta import CreateIntent, ObjectKey, Resource, Time
from relay_operator.api.references import REFERENCES, HeldReference, LocalRef
from relay_operator.api.schema import never_changed, rules
from relay_operator.api.workload import NEVER_STOPPED, SAME_ACCOUNT, ManagedSpec, PartStatus
from relay_operator.engine.fit_schema import moment
from relay_operator.flows.managed.ending import says
from relay_operator.flows.managed.resource import Inputs, Progress
from relay_operator.kinds import machines
from relay_operator.kinds.comparison import differing, spelled
from relay_operator.kinds.listed_parts import ListedParts
from relay_wire.base import RESOURCE_ID
from relay_wire.snapshots import Snapshot as Taken
from relay_wire.snapshots import SnapshotCreate, SnapshotStatus

VM = REFERENCES["vmRef"]
MOST_PAGES = 100
"""A limit for the list of one VM's snapshots."""
_SAME_VM = never_changed("vmRef.name", ", since a snapshot is of one disk: create another object")
_SAME_NAME = never_changed("name", ", since the cloud cannot rename a snapshot: create another object")
_PROGRESS: Mapping[str, Progress] = {
    SnapshotStatus.READY: Progress.READY,
    SnapshotStatus.FAILED: Progress.FAILED,
}


class VmSnapshotSpec(ManagedSpec):
    """Which VM, and the snapshot's name."""

    model_config = rules(SAME_ACCOUNT, NEVER_STOPPED, _SAME_VM, _SAME_NAME)

    vm_ref: LocalRef = Field(description="The GpuVm of this namespace whose disk it shows. Cannot be changed later.")
    name: str = Field(
        min_length=1,
        max_length=63,
        pattern=r"^[!-~]([ -~]*[!-~])?$",
        description="The name that the snapshot gets in the cloud, as it is written here. Cannot be changed later.",
    )


class VmSnapshotStatus(PartStatus):
    """What the cloud says about one snapshot."""

    size_gb: int | None = Field(None, ge=0, description="Its size in GB.")
    created_at: Time | None = Field(None, description="The moment of the disk that it shows.")


class VmSnapshot(Resource[VmSnapshotSpec, VmSnapshotStatus]):
    """One snapshot."""

    kind: Literal["VmSnapshot"] = "VmSnapshot"


DEFINITION = definition_of(
    VmSnapshot,
    "vsnap",
    summary="A snapshot of a GpuVm's disk.",
    columns=(
        Column("VM", ".spec.vmRef.name"),
        Column("Snapshot", ".spec.name"),
        Column("State", ".status.state"),
        Column("GB", ".status.sizeGb", "integer"),
        *RECORD_COLUMNS,
    ),
)

Shot: TypeAlias = Resource[VmSnapshotSpec, VmSnapshotStatus]


class VmSnapshots(ListedParts[VmSnapshotSpec, VmSnapshotStatus, Taken]):
    """How a VmSnapshot maps to a snapshot of a VM, which only the list of that VM's snapshots shows."""

    definition = DEFINITION
    model = VmSnapshot
    mirrored = ("status_reason", "size_gb")
    told_apart_by = ("name",)
    noun, whole_noun = "snapshots", "VM"

    async def rows(self, cloud: Cloud, whole_id: str) -> Iterable[Taken]:
        return await items_of(cloud, operations.LIST_SNAPSHOTS, max_pages=MOST_PAGES, id=whole_id)

    async def is_gone(self, cloud: Cloud, whole_id: str) -> bool:
        return await machines.is_gone(cloud, whole_id)

    def part_of(self, obj: Shot) -> ObjectKey:
        return ObjectKey(VM, obj.metadata.namespace, obj.spec.vm_ref.name)

    async def existing(self, cloud: Cloud, obj: Shot) -> Taken | None:
        """Of several with this name, one that no other object has."""
        named = (taken for taken in await self.siblings(cloud, obj) if taken.name == obj.spec.name)
        return min(named, key=lambda taken: bool(self._cache.others(obj.key, taken.id)), default=None)

    async def may_exist(self, cloud: Cloud, obj: Shot) -> bool:
        """Whether one that no other object has has no name in the list, or this name in another spelling."""
        name, rows = obj.spec.name, await self.siblings(cloud, obj)
        unsure = (each for each in rows if each.name != name and spelled(each.name) in {"", spelled(name)})
        return any(not self._cache.others(obj.key, taken.id) for taken in unsure)

    async def create(self, cloud: Cloud, obj: Shot, intent: CreateIntent, inputs: Inputs) -> Taken:
        name, vm_id = obj.spec.name, intent.part_of
        made = await cloud.call(operations.CREATE_SNAPSHOT, SnapshotCreate(name=name), id=vm_id)
        return made.model_copy(update={"name": made.name or name, "vm_id": made.vm_id or vm_id})

    def of_another(self, obj: Shot, intent: CreateIntent, made: Taken) -> tuple[str, ...]:
        return (*self.differences(obj, made), *differing(("vmId", intent.part_of, made.vm_id)))

    async def end(self, cloud: Cloud, whole_id: str, part_id: str) -> None:
        await cloud.call(operations.DELETE_SNAPSHOT, id=whole_id, snapshotId=part_id)

    def immutable(self, obj: Shot) -> Mapping[str, JsonValue]:
        return {"vmRef": obj.spec.vm_ref.name, "name": obj.spec.name}

    def differences(self, obj: Shot, observed: Taken) -> tuple[str, ...]:
        """None if the cloud spells the name otherwise: what was made under it is what was asked for."""
        alike = spelled(obj.spec.name) == spelled(observed.name)
        return () if alike else differing(("name", obj.spec.name, observed.name))

    def progress(self, observed: Taken) -> Progress:
        """READY if the cloud reports no state."""
        return _PROGRESS.get(observed.status, Progress.PENDING) if observed.status else Progress.READY

    def identity(self, observed: Taken) -> tuple[str, str]:
        return observed.id, observed.name or ""

    def detail(self, observed: Taken) -> str:
        reason = f": {observed.status_reason}" if observed.status and observed.status_reason else ""
        return f"{super().detail(observed)}{reason}"

    def told(self, obj: Shot, observed: Taken) -> Mapping[str, object]:
        """Holds the VM only while the state is `creating`: an unknown state may be the snapshot's last."""
        held = obj.status.references
        if says(obj, "vm_ref"):
            told = observed.vm_id if RESOURCE_ID.fullmatch(observed.vm_id or "") else None
            vm_id = told or obj.status.part_of or observed.id
            held = [HeldReference(kind=VM, name=obj.spec.vm_ref.name, id=vm_id)]
        return {
            **super().told(obj, observed),
            "state": observed.status,
            "created_at": moment(observed.created_at),
            "references": held if observed.status == SnapshotStatus.CREATING else None,
        }
