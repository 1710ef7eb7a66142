"""What becomes of a replica whose GPUs other Pods of the cluster took before its own Pod was placed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from relay_localcloud.replicas.states import ReplicaState
from relay_localcloud.runtimes.kubernetes.facts import SCHEDULED_WITHIN
from relay_localcloud.runtimes.kubernetes.nodes import NodeSeen
from relay_localcloud.runtimes.kubernetes.situations import Step
from tests.localcloud.runtimes.kubernetes.rows import MACHINE, OTHER, UNSCHEDULABLE

if TYPE_CHECKING:
    from relay_localcloud.runtimes.kubernetes.runs import Machine
    from tests.localcloud.runtimes.kubernetes.rows import Rows


def have(room: Rows, *machines: Machine) -> None:
    """These are the Nodes, with what others leave of them."""
    room.look(*(NodeSeen(machine, "h100", "eu", "eu-1", cordoned=False) for machine in machines))


@pytest.mark.parametrize("ran", [False, True])
def test_a_replica_whose_gpus_others_took_moves_to_another_node(room: Rows, ran: bool) -> None:
    cluster_id = room.cluster(gpusPerReplica=4)
    replica = room.replica(cluster_id)
    if ran:
        room.runs(replica.id)
    have(room, replace(MACHINE, gpu_count=3), OTHER)
    room.unplaced(replica.id)
    room.turn(replica.id)
    other = room.replica(cluster_id)
    assert (other.id != replica.id, other.node_id != replica.node_id) == (True, True)
    assert room.turn(replica.id).step is Step.END


def test_without_another_node_it_waits_and_moves_as_soon_as_one_has_room(room: Rows) -> None:
    cluster_id = room.cluster(gpusPerReplica=4)
    replica = room.replica(cluster_id)
    taken = replace(MACHINE, gpu_count=3)
    have(room, taken, replace(OTHER, gpu_count=3))
    room.unplaced(replica.id)
    for _ in range(2):
        room.turn(replica.id)
        waiting = room.replica(cluster_id)
        assert (waiting.id, waiting.reason) == (replica.id, UNSCHEDULABLE)
    have(room, taken, OTHER)
    room.settle()
    assert room.replica(cluster_id).id != replica.id


def test_without_another_node_for_ten_minutes_it_is_given_up(room: Rows) -> None:
    cluster_id = room.cluster(gpusPerReplica=4)
    replica = room.replica(cluster_id)
    room.node(replace(MACHINE, gpu_count=3))
    room.unplaced(replica.id)
    for status in (ReplicaState.PROVISIONING, ReplicaState.FAILED):
        room.turn(replica.id)
        assert room.replica(cluster_id).status is status
        room.now += SCHEDULED_WITHIN


def test_a_replica_that_lacks_something_else_stays_on_its_node(room: Rows) -> None:
    cluster_id = room.cluster(gpusPerReplica=4)
    replica = room.replica(cluster_id)
    have(room, replace(MACHINE, gpu_count=4), OTHER)
    room.unplaced(replica.id)
    room.turn(replica.id)
    assert room.replica(cluster_id).id == replica.id
