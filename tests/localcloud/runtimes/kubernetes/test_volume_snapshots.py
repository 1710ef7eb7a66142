"""What becomes of a snapshot, by what a cluster shows of its VolumeSnapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from relay_localcloud.http.errors import ApiError
from relay_localcloud.kernel.instants import timestamp
from relay_localcloud.runtimes.kubernetes.facts import START_WITHIN
from relay_localcloud.runtimes.kubernetes.holdings import HOLDINGS
from relay_localcloud.runtimes.kubernetes.volume_snapshots import HELD, KEPT, HeldSnapshot, VolumeSnapshot, look, of
from relay_localcloud.workloads import snapshots
from relay_localcloud.workloads.snapshots import SNAPSHOTS
from relay_localcloud.workloads.transitions import Trigger
from relay_localcloud.workloads.workloads import WORKLOADS
from relay_wire.snapshots import SnapshotStatus
from tests.localcloud.runtimes.kubernetes.vms import RUNNING, seen

if TYPE_CHECKING:
    from relay_localcloud.workloads.snapshots import SnapshotRow
    from tests.localcloud.runtimes.kubernetes.rows import Rows

pytestmark = pytest.mark.usefixtures("sold")


def taken(room: Rows) -> str:
    """The id of a new snapshot of a new VM that runs."""
    vm_id = room.vm()
    seen(room, vm_id, *RUNNING)
    return begun(room, vm_id).id


def begun(room: Rows, vm_id: str) -> SnapshotRow:
    with room.tx() as tx:
        vm = WORKLOADS.find(tx, id=vm_id)
        assert vm is not None
        return snapshots._begin(tx, vm, "one")


def looked(room: Rows, snapshot_id: str, **status: Any) -> bool:
    """Whether a request is to be sent, when the cluster shows a VolumeSnapshot of this status, or none."""
    metadata = {"name": "snap", "uid": "u", "creationTimestamp": timestamp(room.now)}
    there = VolumeSnapshot.model_validate({"metadata": metadata, "status": status}) if status else None
    known = held(room, snapshot_id)
    with room.tx() as tx:
        return look(tx, known, there)


def held(room: Rows, snapshot_id: str) -> HeldSnapshot:
    with room.tx() as tx:
        found = HELD.find(tx, id=snapshot_id)
    assert found is not None
    return found


def row(room: Rows, snapshot_id: str) -> tuple[SnapshotStatus, str | None]:
    with room.tx() as tx:
        found = SNAPSHOTS.find(tx, id=snapshot_id)
    assert found is not None
    return found.status, found.status_reason


def test_it_is_of_the_disk_of_its_vm() -> None:
    assert of(HeldSnapshot("snap_1", "vm_2", "org_A", "eu"), "i-1") == {
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshot",
        "metadata": {
            "name": "snap-1",
            "namespace": "relay-org-a",
            "labels": {"gpurelay.dev/cloud-instance": "i-1", "gpurelay.dev/cloud-id": "vm_2"},
        },
        "spec": {"source": {"persistentVolumeClaimName": "vm-2"}},
    }


def test_it_is_taken_until_it_was_seen_and_ready_once_it_can_be_used(room: Rows) -> None:
    snapshot_id = taken(room)
    assert looked(room, snapshot_id)
    assert not looked(room, snapshot_id, readyToUse=False)
    assert row(room, snapshot_id) == (SnapshotStatus.CREATING, None)
    assert not looked(room, snapshot_id, readyToUse=True)
    assert row(room, snapshot_id) == (SnapshotStatus.READY, None)


def test_one_that_somebody_deletes_has_failed_and_is_not_taken_again(room: Rows) -> None:
    snapshot_id = taken(room)
    looked(room, snapshot_id, readyToUse=True)
    assert not looked(room, snapshot_id)
    assert row(room, snapshot_id)[0] is SnapshotStatus.FAILED


def test_an_error_is_said_at_once_and_fails_it_in_time(room: Rows) -> None:
    snapshot_id = taken(room)
    looked(room, snapshot_id, error={"message": "no class"})
    assert row(room, snapshot_id) == (SnapshotStatus.CREATING, "no class")
    room.now += START_WITHIN
    looked(room, snapshot_id, error={"message": "no class"})
    assert row(room, snapshot_id) == (SnapshotStatus.FAILED, "no class")


def test_one_that_was_refused_for_long_is_not_taken_any_more(room: Rows) -> None:
    snapshot_id = taken(room)
    room.now += START_WITHIN
    with room.tx() as tx:
        snapshots.fail(tx, snapshot_id, "Forbidden", after=START_WITHIN)
    assert not looked(room, snapshot_id)


def test_a_request_of_a_killed_process_that_arrives_after_its_end_is_undone(room: Rows) -> None:
    snapshot_id = taken(room)
    with room.tx() as tx:
        tx.runtime.drop_snapshot(snapshots.DONE, snapshot_id)
    assert not looked(room, snapshot_id)
    room.now += KEPT - 1
    assert looked(room, snapshot_id, readyToUse=True)
    assert not looked(room, snapshot_id)
    room.now += 1
    looked(room, snapshot_id)
    with room.tx() as tx:
        assert HELD.find(tx, id=snapshot_id) is None


def test_snapshots_end_with_their_vm(room: Rows) -> None:
    snapshot_id = taken(room)
    room.move(held(room, snapshot_id).vm_id, Trigger.TERMINATE)
    assert held(room, snapshot_id).ended_at == room.now
    assert looked(room, snapshot_id, readyToUse=True)


def test_without_a_disk_there_is_no_snapshot(room: Rows) -> None:
    vm_id = room.vm()
    seen(room, vm_id, *RUNNING)
    with room.tx() as tx:
        HOLDINGS.change(tx, vm_id, cluster=None)
    with pytest.raises(ApiError, match="no disk yet"):
        begun(room, vm_id)
