"""Snapshots of a VM's disk (section 2, "Create snapshot"); all but that they have a name is assumed.

A snapshot takes `SNAPSHOT_SECONDS` of the cloud's clock, costs nothing, and ends with its VM: no operation takes one,
so it would be of no use without the disk that it is of. Pods have none ("no undo, no snapshot", section 3).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

from sqlalchemy import Index, delete, select

from relay_localcloud.http.errors import ApiError, not_found
from relay_localcloud.kernel.due import DueHandler, DueItem
from relay_localcloud.kernel.instants import optional_timestamp, timestamp
from relay_localcloud.kernel.instants import seconds as microseconds
from relay_localcloud.kernel.rows import Rows
from relay_localcloud.kernel.store import Tx
from relay_localcloud.workloads import workloads
from relay_localcloud.workloads.workloads import VM, Workload
from relay_wire.pods import PodStatus
from relay_wire.snapshots import Snapshot, SnapshotStatus

SNAPSHOT_SECONDS: Final = 10.0
MOST_SNAPSHOTS: Final = 100
"""Of one VM."""

DONE: Final = "snapshot.done"
"""The due item of a snapshot that is being made."""

HAS_A_DISK_AT_HAND: Final = frozenset({PodStatus.RUNNING, PodStatus.STOPPED, PodStatus.FAILED})
"""States in which a snapshot may be begun: before, there is no disk yet; else it is on its way, away, or gone."""


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
snapshots: Final = SNAPSHOTS.table


def begin(tx: Tx, vm: Workload, name: str) -> SnapshotRow:
    """Begin a snapshot; ApiError 422 for a pod, 409 in other states, for a name that is taken, and beyond the most."""
    if vm.kind != VM:
        raise ApiError(422, "Pods have no snapshots; what must last is in the volume at /workspace.")
    if vm.status not in HAS_A_DISK_AT_HAND:
        raise ApiError(409, "A snapshot is made of a VM that is running, stopped or failed.")
    names = list(tx.connection.execute(select(snapshots.c.name).where(snapshots.c.vm_id == vm.id)).scalars())
    if name in names:
        raise ApiError(409, f"The VM has a snapshot {name!r} already.")
    if len(names) >= MOST_SNAPSHOTS:
        raise ApiError(409, f"The VM has {MOST_SNAPSHOTS} snapshots, and no more are kept: delete some.")
    snapshot_id = tx.new_id("snap")
    tx.schedule(tx.now + microseconds(SNAPSHOT_SECONDS), DONE, snapshot_id)
    return SNAPSHOTS.insert(
        tx,
        id=snapshot_id,
        vm_id=vm.id,
        name=name,
        status=SnapshotStatus.CREATING,
        size_gb=vm.disk_size_gb,
        created_at=tx.now,
    )


def page_of(tx: Tx, vm: Workload, before: int | None, count: int) -> list[SnapshotRow]:
    """Snapshots of a VM, newest first, those made before the sequence number `before`."""
    earlier = () if before is None else (snapshots.c.sequence < before,)
    return SNAPSHOTS.select(tx.connection, snapshots.c.vm_id == vm.id, *earlier, newest=count)


def row_of(tx: Tx, vm: Workload, snapshot_id: str) -> SnapshotRow:
    """A snapshot of this VM; ApiError 404 where it has none of this id."""
    row = SNAPSHOTS.find(tx.connection, snapshot_id)
    if row is None or row.vm_id != vm.id:
        raise not_found("snapshot", snapshot_id)
    return row


def remove(tx: Tx, vm: Workload, snapshot_id: str) -> None:
    """Delete a snapshot, also one that is being made."""
    row_of(tx, vm, snapshot_id)
    tx.cancel(DONE, snapshot_id)
    tx.connection.execute(delete(snapshots).where(snapshots.c.id == snapshot_id))


def remove_all(tx: Tx, vm_id: str) -> None:
    """Delete every snapshot of a VM that ends."""
    removal = delete(snapshots).where(snapshots.c.vm_id == vm_id).returning(snapshots.c.id)
    for snapshot_id in tx.connection.execute(removal).scalars().all():
        tx.cancel(DONE, snapshot_id)


def shown(row: SnapshotRow, vm: Workload) -> Snapshot:
    """A snapshot as it is answered; it belongs to whom its VM belongs."""
    instants = {"created_at": timestamp(row.created_at), "ready_at": optional_timestamp(row.ready_at)}
    return Snapshot.model_validate({**asdict(row), **instants, "organization_id": vm.organization_id})


def _done(tx: Tx, item: DueItem) -> None:
    row = SNAPSHOTS.find(tx.connection, item.subject)
    vm = None if row is None else workloads.find(tx, row.vm_id)
    assert vm is not None, "a VM's snapshots end with it"
    if vm.status is PodStatus.INTERRUPTED:
        reason = "The VM's node stopped reporting meanwhile."
        SNAPSHOTS.change(tx, item.subject, status=SnapshotStatus.FAILED, status_reason=reason)
    else:
        SNAPSHOTS.change(tx, item.subject, status=SnapshotStatus.READY, ready_at=tx.now)


HANDLERS: Final[Mapping[str, DueHandler]] = {DONE: _done}
