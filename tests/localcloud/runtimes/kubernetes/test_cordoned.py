"""What is to start on a node that is cordoned waits for the end of that: it neither fails, nor is it billed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from relay_localcloud.kernel.instants import DAY, HOUR, MINUTE
from relay_localcloud.providers import node_events
from relay_localcloud.replicas.states import ReplicaState
from relay_localcloud.runtimes.kubernetes.facts import ALL_CORDONED, CORDONED, SCHEDULED_WITHIN
from relay_localcloud.runtimes.kubernetes.nodes import NodeSeen
from relay_localcloud.runtimes.kubernetes.observed import PodSpec
from relay_localcloud.runtimes.kubernetes.situations import Step
from relay_localcloud.runtimes.kubernetes.wanted import Terms
from relay_localcloud.workloads.transitions import Trigger
from relay_wire.clusters import ClusterStatus
from relay_wire.pods import PodStatus
from tests.localcloud.runtimes.kubernetes.rows import MACHINE, OTHER

if TYPE_CHECKING:
    from tests.localcloud.runtimes.kubernetes.rows import Rows


@pytest.fixture
def pod_id(room: Rows) -> str:
    """The id of a pod."""
    room.offer = replace(room.offer, terms=Terms("mine", "fast"))
    return room.pod()


def told(room: Rows, pod_id: str) -> tuple[PodStatus, str | None]:
    found = room.workload(pod_id)
    return found.status, found.status_reason


def test_a_pod_whose_node_was_drained_waits_unbilled_and_runs_on_once_it_is_uncordoned(room: Rows, pod_id: str) -> None:
    began = room.now
    room.runs(pod_id)
    room.now += HOUR
    room.node(cordoned=True)
    assert room.turn(pod_id).step is Step.NOTHING
    assert told(room, pod_id) == (PodStatus.RUNNING, None)
    room.pods.clear()
    drained = room.now
    for _ in range(2):
        assert room.turn(pod_id).step is Step.NOTHING
        assert told(room, pod_id) == (PodStatus.DEPLOYING, CORDONED)
        room.now += DAY
    room.node()
    assert room.turn(pod_id).step is Step.MAKE
    room.runs(pod_id)
    assert told(room, pod_id) == (PodStatus.RUNNING, None)
    assert room.billed(pod_id) == [(began, drained), (room.now, None)]


def test_a_pod_that_is_restarted_on_a_cordoned_node_waits(room: Rows, pod_id: str) -> None:
    room.runs(pod_id)
    room.node(cordoned=True)
    room.move(pod_id, Trigger.RESTART)
    assert room.turn(pod_id).step is Step.END
    room.pods.clear()
    assert room.turn(pod_id).step is Step.NOTHING
    assert told(room, pod_id) == (PodStatus.DEPLOYING, CORDONED)


def test_the_time_to_be_scheduled_begins_once_the_node_is_uncordoned(room: Rows, pod_id: str) -> None:
    room.unplaced(pod_id)
    room.node(cordoned=True)
    room.now += 2 * SCHEDULED_WITHIN
    assert room.turn(pod_id).step is Step.END
    assert told(room, pod_id) == (PodStatus.DEPLOYING, CORDONED)
    room.pods.clear()
    room.node()
    assert room.turn(pod_id).step is Step.MAKE
    room.unplaced(pod_id)
    for status in (PodStatus.DEPLOYING, PodStatus.FAILED):
        room.turn(pod_id)
        assert room.workload(pod_id).status is status
        room.now += SCHEDULED_WITHIN


def test_a_pod_that_waits_for_its_node_when_its_owner_holds_that_is_recreated_so_that_it_may_go_there(
    room: Rows, pod_id: str
) -> None:
    room.unplaced(pod_id)
    assert room.turn(pod_id).step is Step.NOTHING
    node_id = str(room.workload(pod_id).node_id)
    with room.tx() as tx:
        node_events.set_by_owner(tx, node_id, "draining")
    assert room.turn(pod_id).step is Step.END
    room.pods.clear()
    made = room.turn(pod_id)
    *_, pod = made.manifests
    room.unplaced(pod_id)
    spec = PodSpec.model_validate(pod["spec"])
    room.pods[made.name] = room.pods[made.name].model_copy(update={"spec": spec})
    assert room.turn(pod_id).step is Step.NOTHING
    assert room.workload(pod_id).status is PodStatus.DEPLOYING


def test_one_rejection_does_not_fail_what_waited_on_a_cordoned_node_since_the_last_one(room: Rows, pod_id: str) -> None:
    room.ends(pod_id, "UnexpectedAdmissionError")
    room.pods.clear()
    room.node(cordoned=True)
    room.turn(pod_id)
    room.now += HOUR
    room.node()
    room.ends(pod_id, "UnexpectedAdmissionError")
    assert room.workload(pod_id).status is PodStatus.DEPLOYING


def test_a_pod_that_waits_on_a_cordoned_node_leaves_nothing_when_it_is_terminated(room: Rows, pod_id: str) -> None:
    room.unplaced(pod_id)
    room.node(cordoned=True)
    room.move(pod_id, Trigger.TERMINATE)
    assert room.turn(pod_id).step is Step.END
    room.pods.clear()
    assert room.turn(pod_id).step is Step.SWEEP


def test_a_replica_waits_unbilled_where_no_other_node_has_room_and_its_cluster_does_not_fail(room: Rows) -> None:
    began, cluster_id = room.now, room.cluster()
    replica = room.replica(cluster_id)
    room.runs(replica.id)
    room.now += HOUR
    drained = room.now
    room.node(cordoned=True)
    room.pods.clear()
    for _ in range(10):
        assert room.turn(replica.id).step is Step.NOTHING
        room.now += MINUTE
        room.settle()
    waiting = room.replica(cluster_id)
    assert (waiting.id, waiting.status, waiting.reason) == (replica.id, ReplicaState.PROVISIONING, CORDONED)
    room.node()
    assert room.turn(replica.id).step is Step.MAKE
    room.runs(replica.id)
    assert room.status(cluster_id) is ClusterStatus.RUNNING
    assert room.billed(replica.id) == [(began, drained), (room.now, None)]


def test_a_replica_moves_to_another_node_if_that_has_room(room: Rows) -> None:
    cluster_id = room.cluster()
    replica = room.replica(cluster_id)
    room.runs(replica.id)
    there = NodeSeen(OTHER, "h100", "eu", "eu-1", cordoned=False)
    room.look(NodeSeen(MACHINE, "h100", "eu", "eu-1", cordoned=True), there)
    assert room.turn(replica.id).step is Step.NOTHING
    room.pods.clear()
    room.turn(replica.id)
    other = room.replica(cluster_id)
    assert (other.id != replica.id, other.node_id != replica.node_id) == (True, True)
    assert room.turn(other.id).step is Step.MAKE
    assert room.turn(replica.id).step is Step.SWEEP


def test_a_replica_without_gpus_waits_unbilled_while_every_node_is_cordoned(room: Rows) -> None:
    cluster_id = room.cluster(gpuModelId=None, gpusPerReplica=0)
    replica = room.replica(cluster_id)
    room.unplaced(replica.id)
    room.closed = True
    room.now += 2 * SCHEDULED_WITHIN
    assert room.turn(replica.id).step is Step.END
    room.pods.clear()
    for _ in range(2):
        assert room.turn(replica.id).step is Step.NOTHING
        waiting = room.replica(cluster_id)
        assert (waiting.id, waiting.status, waiting.reason) == (replica.id, ReplicaState.PROVISIONING, ALL_CORDONED)
        room.now += DAY
        room.settle()
    room.closed = False
    assert room.turn(replica.id).step is Step.MAKE
    room.runs(replica.id)
    assert room.status(cluster_id) is ClusterStatus.RUNNING
    assert room.billed(replica.id) == [(room.now, None)]


def test_a_replica_without_gpus_that_was_drained_is_billed_until_then(room: Rows) -> None:
    began, cluster_id = room.now, room.cluster(gpuModelId=None, gpusPerReplica=0)
    replica = room.replica(cluster_id)
    room.runs(replica.id)
    room.now += HOUR
    room.closed = True
    assert room.turn(replica.id).step is Step.NOTHING
    assert room.replica(cluster_id).status is ReplicaState.HEALTHY
    room.pods.clear()
    room.turn(replica.id)
    assert room.replica(cluster_id).reason == ALL_CORDONED
    assert room.billed(replica.id) == [(began, room.now)]
