"""Snapshots of a VM's disk (section 2, "Create snapshot"); everything but their name is assumed, including paths.

The runtime takes it; a simulated one needs ten seconds of the cloud's clock. It costs nothing, and ends with its VM: no
operation restores one, so it would be useless without its disk. Pods have none ("no undo, no snapshot", section 3).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

from sqlalchemy import Index

from relay_localcloud.capacity.offers import require_offered
from relay_localcloud.http.arguments import Path
from relay_localcloud.http.bodies import Body
from relay_localcloud.http.errors import ApiError, not_found
from relay_localcloud.http.openapi import ASSUMED
from relay_localcloud.http.pages import PageRequest
from relay_localcloud.http.principal import ResourceId, VmReader, VmWriter
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel.due import DueHandler, DueItem
from relay_localcloud.kernel.rows import Rows, shown
from relay_localcloud.kernel.store import Tx
from relay_localcloud.runtimes.runtime import Noun
from relay_localcloud.workloads import workloads
from relay_localcloud.workloads.workloads import VM, Workload, visible
from relay_wire.pods import PodStatus
from relay_wire.snapshots import Snapshot, SnapshotCreate, SnapshotPage, SnapshotStatus

router = Router("Snapshots")

SnapshotId = Annotated[str, Path("snapshotId")]

MOST_SNAPSHOTS: Final = 100
"""Snapshots of one VM."""

DONE: Final = "snapshot.done"
"""The kind of the due item that completes a snapshot."""

HAS_A_DISK_AT_HAND: Final = frozenset({PodStatus.RUNNING, PodStatus.STOPPED, PodStatus.FAILED})
"""States that allow a snapshot: before them there is no disk yet; in others it is in transition, absent or deleted."""


@dataclass(frozen=True, slots=True)
class SnapshotRow:
    """A snapshot."""

    sequence: int
    id: str
    vm_id: str
    name: str
    status: SnapshotStatus
    status_reason: str | None
    size_gb: int  # of the disk
    created_at: int
    ready_at: int | None


SNAPSHOTS: Final = Rows(
    SnapshotRow,
    "snapshots",
    Index("snapshot_names", "vm_id", "name", unique=True),
    Index("snapshots_of_vm", "vm_id", "sequence"),
)


@router.post("/v1/vms/{id}/snapshots/create", summary="Make a snapshot", openapi_extra=ASSUMED)
def create_snapshot(caller: VmWriter, vm_id: ResourceId, body: Body[SnapshotCreate], tx: Tx) -> Snapshot:
    """Answers it while it is being made; it is `ready` a little later."""
    vm = visible(tx, caller, vm_id)
    require_offered(tx, Noun.SNAPSHOT)
    return _shown(_begin(tx, vm, body.name), vm)


@router.get("/v1/vms/{id}/snapshots", response_model=SnapshotPage, summary="List snapshots", openapi_extra=ASSUMED)
def list_snapshots(caller: VmReader, vm_id: ResourceId, page: PageRequest, tx: Tx) -> dict[str, object]:
    """Answers a page, newest first."""
    vm = visible(tx, caller, vm_id)
    rows = partial(SNAPSHOTS.page, tx, vm_id=vm.id)
    return page.newest(f"snapshots of {vm_id}", vm.organization_id, rows, lambda row: _shown(row, vm))


@router.get("/v1/vms/{id}/snapshots/{snapshotId}", summary="Get a snapshot", openapi_extra=ASSUMED)
def get_snapshot(caller: VmReader, vm_id: ResourceId, snapshot_id: SnapshotId, tx: Tx) -> Snapshot:
    """Answers where it is."""
    vm = visible(tx, caller, vm_id)
    row = SNAPSHOTS.find(tx, id=snapshot_id, vm_id=vm.id)
    if row is None:
        raise not_found("snapshot", snapshot_id)
    return _shown(row, vm)


@router.delete(
    "/v1/vms/{id}/snapshots/{snapshotId}", status_code=204, summary="Delete a snapshot", openapi_extra=ASSUMED
)
def delete_snapshot(caller: VmWriter, vm_id: ResourceId, snapshot_id: SnapshotId, tx: Tx) -> None:
    """Its name is free again."""
    if not SNAPSHOTS.remove(tx, id=snapshot_id, vm_id=visible(tx, caller, vm_id).id):
        raise not_found("snapshot", snapshot_id)
    tx.runtime.drop_snapshot(DONE, snapshot_id)


def remove_all(tx: Tx, vm_id: str) -> None:
    """Delete every snapshot of a VM that ends."""
    for row in SNAPSHOTS.all(tx, vm_id=vm_id):
        tx.runtime.drop_snapshot(DONE, row.id)
    SNAPSHOTS.remove(tx, vm_id=vm_id)


def _begin(tx: Tx, vm: Workload, name: str) -> SnapshotRow:
    """Begin a snapshot; ApiError 422 for a pod, 409 in other states, for a used name, and beyond the maximum."""
    if vm.kind != VM:
        raise ApiError(422, "Pods have no snapshots; what must last is in the volume at /workspace.")
    if vm.status not in HAS_A_DISK_AT_HAND:
        raise ApiError(409, "Only a VM that is running, stopped or failed can have a snapshot taken.")
    names = [row.name for row in SNAPSHOTS.all(tx, vm_id=vm.id)]
    if name in names:
        raise ApiError(409, f"The VM has a snapshot {name!r} already.")
    if len(names) >= MOST_SNAPSHOTS:
        raise ApiError(409, f"The VM has {MOST_SNAPSHOTS} snapshots, and no more are kept: delete some.")
    snapshot_id = tx.new_id("snap")
    tx.runtime.take_snapshot(DONE, snapshot_id, vm.id)
    return SNAPSHOTS.insert(
        tx,
        id=snapshot_id,
        vm_id=vm.id,
        name=name,
        status=SnapshotStatus.CREATING,
        size_gb=vm.disk_size_gb,
        created_at=tx.now,
    )


def _shown(row: SnapshotRow, vm: Workload) -> Snapshot:
    """A snapshot as the API shows it; it belongs to its VM's organization."""
    return Snapshot.model_validate({**shown(row), "organizationId": vm.organization_id})


def is_awaited(tx: Tx, snapshot_id: str) -> bool:
    """Whether a snapshot is still to be taken."""
    return SNAPSHOTS.find(tx, id=snapshot_id, status=SnapshotStatus.CREATING) is not None


def is_ready(tx: Tx, snapshot_id: str) -> None:
    """Record that a snapshot is taken."""
    done = {"status": SnapshotStatus.READY, "status_reason": None, "ready_at": tx.now}
    SNAPSHOTS.change_all(tx, done, id=snapshot_id, status=SnapshotStatus.CREATING)


def fail(tx: Tx, snapshot_id: str, reason: str, *, after: int = 0) -> None:
    """Record why a snapshot is not taken, or not there any more.

    One that is still to be taken has failed only once so long `after` its creation; others do not change then.
    """
    row = SNAPSHOTS.find(tx, id=snapshot_id)
    if row is None or (row.status is not SnapshotStatus.CREATING and after):
        return
    status = SnapshotStatus.FAILED if tx.now - row.created_at >= after else row.status
    if (status, reason) != (row.status, row.status_reason):
        SNAPSHOTS.change(tx, row.id, status=status, status_reason=reason)


def _done(tx: Tx, item: DueItem) -> None:
    row = SNAPSHOTS.find(tx, id=item.subject)
    vm = None if row is None else workloads.find(tx, row.vm_id)
    assert vm is not None, "a VM's snapshots end with it"
    if vm.status is PodStatus.INTERRUPTED:
        fail(tx, item.subject, "The VM's node stopped reporting meanwhile.")
    else:
        is_ready(tx, item.subject)


HANDLERS: Final[Mapping[str, DueHandler]] = {DONE: _done}
