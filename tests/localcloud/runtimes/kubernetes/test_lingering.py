"""The GPUs of what was terminated are free once its Pod is gone, however long that hangs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from relay_localcloud.capacity import claims, nodes, reservations
from relay_localcloud.capacity.reservations import ReservationStatus
from relay_localcloud.http.errors import ApiError
from relay_localcloud.kernel.instants import DAY, timestamp
from relay_localcloud.providers import reservation_moves, reservation_routes
from relay_localcloud.providers.reservation_states import ReservationTrigger
from relay_localcloud.runtimes.kubernetes.names import name_of
from relay_localcloud.runtimes.kubernetes.situations import Step
from relay_localcloud.runtimes.kubernetes.wanted import Terms
from relay_localcloud.workloads.transitions import Trigger
from relay_wire.reservations import ReservationCreate
from tests.localcloud.runtimes.kubernetes.rows import MACHINE

if TYPE_CHECKING:
    from tests.localcloud.runtimes.kubernetes.rows import Rows


@pytest.fixture
def room(room: Rows) -> Rows:
    """A cloud with volumes, which knows the Pods that exist."""
    room.offer = replace(room.offer, terms=Terms("mine", "fast"))
    room.may_run = lambda _, __, name: name in room.pods
    return room


def test_the_gpus_of_a_terminated_pod_are_free_once_its_pod_is_gone(room: Rows) -> None:
    pod_id = room.pod(gpuCount=8)
    room.runs(pod_id)
    room.move(pod_id, Trigger.TERMINATE)
    room.runs(pod_id, deletionTimestamp=timestamp(room.now))
    for _ in range(2):
        assert room.turn(pod_id).step is Step.NOTHING
        assert room.free() == 0
        with pytest.raises(ApiError, match="free now"):
            room.pod()
        room.now += DAY
        room.node()
    room.pods.clear()
    assert room.turn(pod_id).step is Step.SWEEP
    assert room.free() == 8
    room.turn(pod_id)
    assert room.free() == 8


def test_the_gpus_of_a_failed_pod_are_free_once_its_pod_is_gone(room: Rows) -> None:
    pod_id = room.pod(gpuCount=8)
    room.runs(pod_id)
    room.move(pod_id, Trigger.FAILED)
    room.runs(pod_id, deletionTimestamp=timestamp(room.now))
    assert room.free() == 0
    room.pods.clear()
    assert room.turn(pod_id).step is Step.SWEEP
    assert room.free() == 8


def test_the_gpus_of_a_pod_that_is_stopped_on_a_silent_node_are_free_once_its_pod_is_gone(room: Rows) -> None:
    pod_id = room.pod(gpuCount=8)
    room.runs(pod_id)
    room.move(pod_id, Trigger.NODE_LOST)
    room.move(pod_id, Trigger.STOP)
    assert room.free() == 0
    room.pods.clear()
    room.turn(pod_id)
    assert room.free() == 8


def test_a_pod_that_is_restarted_while_its_failed_run_lingers_has_its_gpus_once(room: Rows) -> None:
    pod_id = room.pod(gpuCount=8)
    room.runs(pod_id)
    room.move(pod_id, Trigger.FAILED)
    room.move(pod_id, Trigger.RESTART)
    assert room.free() == 0
    room.pods.clear()
    room.turn(pod_id)
    room.move(pod_id, Trigger.TERMINATE)
    assert room.free() == 8


def test_a_pod_that_never_had_a_pod_frees_its_gpus_at_once(room: Rows) -> None:
    pod_id = room.pod(gpuCount=8)
    room.turn(pod_id)
    room.move(pod_id, Trigger.TERMINATE)
    assert room.free() == 8


def test_what_waits_for_room_gets_the_gpus_of_an_ended_replica_once_its_pod_is_gone(room: Rows) -> None:
    first = room.cluster(name="a", replicaCount=8)
    leaving = room.replicas(first)
    for replica in leaving:
        room.runs(replica.id)
    room.node(replace(MACHINE, gpu_count=9))
    waiting = room.cluster(name="b", replicaCount=2)
    assert len(room.replicas(waiting)) == 1
    room.end(first)
    room.settle()
    assert (room.free(), len(room.replicas(waiting))) == (0, 1)
    del room.pods[name_of(leaving[0].id)]
    room.turn(leaving[0].id)
    room.settle()
    assert (room.free(), len(room.replicas(waiting))) == (0, 2)
    room.pods.clear()
    for replica in leaving[1:]:
        room.turn(replica.id)
    assert room.free() == 7


def test_lent_gpus_are_reclaimed_although_the_pod_of_an_ended_guest_hangs(room: Rows) -> None:
    with room.tx() as tx:
        node = nodes.NODES.all(tx)[0]
        whole = {"unit_ids": list(node.unit_ids), "allowed_org_ids": [room.organization_id]}
        lent = reservation_routes._create(tx, node, ReservationCreate.model_validate(whole))
        lent = reservation_moves.apply(tx, lent, ReservationTrigger.RELEASE)
    cluster_id = room.cluster(tier="spot")
    replica = room.replica(cluster_id)
    room.runs(replica.id)
    room.end(cluster_id)
    with room.tx() as tx:
        assert reservation_moves.apply(tx, lent, ReservationTrigger.RECLAIM).status is ReservationStatus.ACTIVE
        assert len(claims.CLAIMS.all(tx)) == 1
    room.pods.clear()
    room.turn(replica.id)
    with room.tx() as tx:
        assert claims.CLAIMS.all(tx) == []
        assert all(each.free for each in reservations.UNITS.all(tx))
