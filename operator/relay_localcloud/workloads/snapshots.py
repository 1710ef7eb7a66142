"""Snapshots of a VM's disk (section 2, "Create snapshot"); all but that they have a name is assumed.

A snapshot takes `SNAPSHOT_SECONDS` of the cloud's clock, costs nothing, and ends with its VM: no operation takes one,
so it would be of no use without the disk that it is of. Pods have none ("no undo, no snapshot", section 3).
"""

from collections.abc import Mapping
from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    RowMapping,
    String,
    Table,
    Text,
    delete,
    insert,
    select,
    update,
)

from relay_localcloud.clock.due import DueHandler, DueItem
from relay_localcloud.http.errors import ApiError, not_found
from relay_localcloud.kernel.instants import optional_timestamp, timestamp
from relay_localcloud.kernel.instants import seconds as microseconds
from relay_localcloud.kernel.schema import metadata
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

snapshots = Table(
    "snapshots",
    metadata,
    Column("sequence", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("vm_id", String, nullable=False),
    Column("name", String, nullable=False),
    Column("status", String, nullable=False),
    Column("status_reason", Text),
    Column("size_gb", Integer, nullable=False),  # of the disk
    Column("created_at", BigInteger, nullable=False),
    Column("ready_at", BigInteger),
    Index("snapshot_names", "vm_id", "name", unique=True),
    Index("snapshots_of_vm", "vm_id", "sequence"),
)


def begin(tx: Tx, vm: Workload, name: str) -> RowMapping:
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
    values = {
        "id": snapshot_id,
        "vm_id": vm.id,
        "name": name,
        "status": SnapshotStatus.CREATING.value,
        "size_gb": vm.disk_size_gb,
        "created_at": tx.now,
    }
    return tx.connection.execute(insert(snapshots).returning(snapshots), values).mappings().one()


def page_of(tx: Tx, vm: Workload, before: int | None, count: int) -> list[RowMapping]:
    """Snapshots of a VM, newest first, those made before the sequence number `before`."""
    query = select(snapshots).where(snapshots.c.vm_id == vm.id)
    if before is not None:
        query = query.where(snapshots.c.sequence < before)
    return list(tx.connection.execute(query.order_by(snapshots.c.sequence.desc()).limit(count)).mappings())


def row_of(tx: Tx, vm: Workload, snapshot_id: str) -> RowMapping:
    """A snapshot of this VM; ApiError 404 where it has none of this id."""
    query = select(snapshots).where(snapshots.c.vm_id == vm.id, snapshots.c.id == snapshot_id)
    row = tx.connection.execute(query).mappings().first()
    if row is None:
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


def shown(row: RowMapping, vm: Workload) -> Snapshot:
    """A snapshot as it is answered; it belongs to whom its VM belongs."""
    instants = {"created_at": timestamp(row["created_at"]), "ready_at": optional_timestamp(row["ready_at"])}
    return Snapshot.model_validate({**row, **instants, "organization_id": vm.organization_id})


def _done(tx: Tx, item: DueItem) -> None:
    row = tx.connection.execute(select(snapshots).where(snapshots.c.id == item.subject)).mappings().one()
    vm = workloads.find(tx, row["vm_id"])
    assert vm is not None, "a VM's snapshots end with it"
    away = vm.status is PodStatus.INTERRUPTED
    outcome = (
        {"status": SnapshotStatus.FAILED.value, "status_reason": "The VM's node stopped reporting meanwhile."}
        if away
        else {"status": SnapshotStatus.READY.value, "ready_at": tx.now}
    )
    tx.connection.execute(update(snapshots).where(snapshots.c.id == item.subject).values(**outcome))


HANDLERS: Final[Mapping[str, DueHandler]] = {DONE: _done}
