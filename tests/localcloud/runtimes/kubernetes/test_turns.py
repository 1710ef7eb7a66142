"""What a turn reports to a holder's row, however long a cluster refuses its objects or a node is silent."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from relay_localcloud.capacity import catalog
from relay_localcloud.kernel.instants import DAY, HOUR, MINUTE, timestamp
from relay_localcloud.replicas.states import ReplicaState
from relay_localcloud.runtimes.kubernetes import holdings, turns
from relay_localcloud.runtimes.kubernetes.facts import LEAVES_WITHIN, START_WITHIN
from relay_localcloud.runtimes.kubernetes.holdings import HOLDINGS
from relay_localcloud.runtimes.kubernetes.names import name_of
from relay_localcloud.runtimes.kubernetes.reports import STOPS_LATE
from relay_localcloud.runtimes.kubernetes.situations import REMADE_AFTER, Step
from relay_localcloud.runtimes.kubernetes.wanted import Terms
from relay_localcloud.workloads.transitions import Trigger
from relay_wire.pods import PodStatus
from tests.localcloud.runtimes.kubernetes.rows import GPU

if TYPE_CHECKING:
    from relay_localcloud.runtimes.kubernetes.turns import Turn
    from tests.localcloud.runtimes.kubernetes.rows import Rows


def test_a_refusal_that_lasts_five_minutes_fails_the_replica(room: Rows) -> None:
    cluster_id = room.cluster()
    replica = room.replica(cluster_id)
    for _ in range(5):
        room.refused(replica.id)
        assert room.replica(cluster_id).status is ReplicaState.PROVISIONING
        room.now += MINUTE
    room.refused(replica.id)
    assert room.replica(cluster_id).status is ReplicaState.FAILED


def test_a_cluster_that_fails_at_it_fails_no_replica_however_long_that_lasts(room: Rows) -> None:
    cluster_id = room.cluster()
    replica = room.replica(cluster_id)
    room.refused(replica.id)
    for _ in range(2):
        room.now += HOUR
        room.refused(replica.id, "InternalError: failed calling webhook", is_final=False)
    room.refused(replica.id)
    assert room.replica(cluster_id).status is ReplicaState.PROVISIONING


@pytest.mark.parametrize("drained", [True, False])
def test_one_refusal_does_not_fail_a_replica_that_ran_for_long(room: Rows, drained: bool) -> None:
    cluster_id = room.cluster()
    replica = room.replica(cluster_id)
    room.refused(replica.id)
    room.runs(replica.id)
    room.now += HOUR
    if drained:
        room.runs(replica.id, deletionTimestamp=timestamp(room.now))
    room.pods.clear()
    room.refused(replica.id)
    assert room.replica(cluster_id).status is ReplicaState.PROVISIONING


def test_one_refusal_does_not_fail_a_replica_that_waited_for_a_silent_node(room: Rows) -> None:
    cluster_id = room.cluster()
    replica = room.replica(cluster_id)
    room.refused(replica.id)
    room.node(reports=False)
    assert room.turn(replica.id).step is Step.NOTHING
    room.now += 9 * MINUTE
    room.node()
    room.refused(replica.id)
    assert room.replica(cluster_id).status is ReplicaState.PROVISIONING


def test_a_replica_of_a_deployment_that_failed_is_not_replaced_when_its_pod_is_gone(room: Rows) -> None:
    deployment_id = room.deployment()
    (replica,) = room.engines(deployment_id)
    assert room.ends(replica.id, "Evicted").step is Step.END
    room.pods.clear()
    for _ in range(2):
        assert room.turn(replica.id).step is Step.SWEEP
        assert [(each.id, each.status) for each in room.engines(deployment_id)] == [(replica.id, ReplicaState.FAILED)]


def test_a_pod_whose_volume_was_lost_may_have_an_empty_one_once_its_owner_restarts_it(room: Rows) -> None:
    room.offer = replace(room.offer, terms=Terms("mine", "fast"))
    pod_id = room.pod()
    room.runs(pod_id)
    room.pods.clear()
    lost = room.turn(pod_id)
    assert (lost.step, lost.holding.had_pod) == (Step.MAKE, True)
    with room.tx() as tx:
        turns.lost_volume(tx, lost)
    assert room.workload(pod_id).status is PodStatus.FAILED
    assert room.turn(pod_id).step is Step.SWEEP
    room.move(pod_id, Trigger.RESTART)
    again = room.turn(pod_id)
    assert (again.step, again.holding.had_pod) == (Step.MAKE, False)


REJECTED = "UnexpectedAdmissionError"


def test_a_replica_whose_pods_the_kubelet_always_rejects_fails_after_five_minutes_and_is_made_again_at_a_pace(
    room: Rows,
) -> None:
    cluster_id = room.cluster()
    replica = room.replica(cluster_id)
    for _ in range(START_WITHIN // REMADE_AFTER - 1):
        assert room.ends(replica.id, REJECTED).step is Step.NOTHING
        room.now += REMADE_AFTER
        assert room.turn(replica.id).step is Step.END
        room.pods.clear()
        assert room.turn(replica.id).step is Step.MAKE
        assert room.replica(cluster_id).status is ReplicaState.PROVISIONING
    room.ends(replica.id, REJECTED)
    room.now += REMADE_AFTER
    assert room.turn(replica.id).step is Step.END
    assert room.replica(cluster_id).status is ReplicaState.FAILED


def test_one_rejection_does_not_fail_a_replica_that_ran_since_the_last_one(room: Rows) -> None:
    cluster_id = room.cluster()
    replica = room.replica(cluster_id)
    room.ends(replica.id, REJECTED)
    room.runs(replica.id)
    room.now += HOUR
    room.ends(replica.id, REJECTED)
    assert room.replica(cluster_id).status is ReplicaState.RECOVERING


@pytest.mark.parametrize("is_left", [True, False])
def test_one_rejection_does_not_fail_a_replica_whose_node_was_silent_since_the_last_one(
    room: Rows, is_left: bool
) -> None:
    cluster_id = room.cluster()
    replica = room.replica(cluster_id)
    room.ends(replica.id, REJECTED)
    if not is_left:
        room.pods.clear()
    room.node(reports=False)
    room.turn(replica.id)
    room.now += 9 * MINUTE
    room.node()
    room.ends(replica.id, REJECTED)
    assert room.replica(cluster_id).status is ReplicaState.PROVISIONING


def test_a_stop_ends_what_a_restored_state_did_not_know_once_it_was_seen_also_on_a_silent_node(room: Rows) -> None:
    cluster_id = room.cluster()
    replica = room.replica(cluster_id)
    room.node(reports=False)
    room.runs(replica.id, start=2)
    room.stop(cluster_id)
    assert room.turn(replica.id).step is Step.END


def test_a_terminate_ends_what_a_restored_state_does_not_know(room: Rows) -> None:
    cluster_id = room.cluster()
    replica = room.replica(cluster_id)
    room.turn(replica.id)
    room.pods[name_of(replica.id)] = room.running(replica.id, start=2)
    room.end(cluster_id)
    assert room.turn(replica.id).step is Step.END


def test_an_end_is_remembered_until_a_day_after_nothing_was_left(room: Rows) -> None:
    def forget() -> None:
        with room.tx() as tx:
            holdings.forget(tx)

    cluster_id = room.cluster()
    replica = room.replica(cluster_id)
    room.runs(replica.id)
    room.end(cluster_id)
    room.now += 2 * DAY  # its node was dead
    forget()
    assert room.turn(replica.id).step is Step.END
    room.pods.clear()
    assert room.turn(replica.id).step is Step.SWEEP
    with room.tx() as tx:
        holdings.swept(tx, replica.id)
    room.now += holdings.KEPT - 1
    forget()
    assert room.turn(replica.id).step is Step.SWEEP
    room.now += 1
    forget()
    with room.tx() as tx:
        assert HOLDINGS.find(tx, id=replica.id) is None


CPU_ONLY = {"gpuModelId": None, "resourceSize": "small"}


def test_a_replica_without_gpus_whose_pod_is_stuck_on_a_dead_node_is_replaced_once(room: Rows) -> None:
    cluster_id = room.cluster(**CPU_ONLY)
    replica = room.replica(cluster_id)
    room.runs(replica.id)
    room.runs(replica.id, deletionTimestamp=timestamp(room.now))
    assert [each.id for each in room.replicas(cluster_id)] == [replica.id]
    room.now += LEAVES_WITHIN
    assert room.turn(replica.id).step is Step.NOTHING
    other = room.replica(cluster_id)
    assert (other.id != replica.id, other.status) == (True, ReplicaState.PROVISIONING)
    assert room.turn(other.id).step is Step.MAKE
    assert room.turn(replica.id).step is Step.NOTHING
    room.pods.clear()  # the node is back
    assert room.turn(replica.id).step is Step.SWEEP
    assert room.replica(cluster_id).id == other.id


def test_a_replica_of_a_size_that_is_no_longer_sold_runs_on_and_fails_once_it_needs_another_pod(
    room: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster_id = room.cluster(**CPU_ONLY)
    replica = room.replica(cluster_id)
    room.runs(replica.id)
    monkeypatch.delitem(catalog._CPU_SIZES, "small")
    assert room.turn(replica.id).step is Step.NOTHING
    assert room.replica(cluster_id).status is ReplicaState.HEALTHY
    room.pods.clear()
    room.turn(replica.id)
    failed = room.replica(cluster_id)
    assert (failed.status, failed.reason) == (
        ReplicaState.FAILED,
        "The administrator of this cloud has removed the size small.",
    )


def test_a_pod_that_is_stopped_and_does_not_leave_says_so_until_it_is_stopped(room: Rows) -> None:
    pod_id = room.pod()
    room.runs(pod_id)
    room.move(pod_id, Trigger.STOP)
    room.runs(pod_id, deletionTimestamp=timestamp(room.now))
    said = []
    for _ in range(3):
        said.append((room.workload(pod_id).status, room.workload(pod_id).status_reason))
        room.now += LEAVES_WITHIN
        assert room.turn(pod_id).step is Step.NOTHING
    assert said == [(PodStatus.STOPPING, None), *[(PodStatus.STOPPING, STOPS_LATE)] * 2]
    room.pods.clear()
    assert room.turn(pod_id).step is Step.SWEEP
    assert (room.workload(pod_id).status, room.workload(pod_id).status_reason) == (PodStatus.STOPPED, None)


def test_a_replica_with_gpus_keeps_them_while_its_pod_is_stuck_on_a_node_that_reports(room: Rows) -> None:
    cluster_id = room.cluster()
    replica = room.replica(cluster_id)
    room.runs(replica.id)
    room.now += LEAVES_WITHIN
    room.runs(replica.id, deletionTimestamp=timestamp(room.now - LEAVES_WITHIN))
    assert room.replica(cluster_id).id == replica.id


def share(turn: Turn) -> tuple[object, object]:
    """The CPU and memory that the container of a turn gets."""
    pod: Any = turn.manifests[-1]
    asked = pod["spec"]["containers"][0]["resources"]["requests"]
    return asked["cpu"], asked["memory"]


def test_a_container_gets_its_part_of_what_the_clouds_other_containers_leave_of_its_node(room: Rows) -> None:
    first, second = (room.cluster(name=name, gpusPerReplica=4) for name in ("first", "second"))
    whole = (f"{96_000 // 2}m", str(800 * 1024**3 // 2))
    assert share(room.turn(room.replica(first).id)) == whole
    room.runs(room.replica(first).id, asks={GPU: "4", "cpu": whole[0], "memory": whole[1]})
    room.runs(room.replica(room.cluster(name="cpu", **CPU_ONLY)).id, asks={"cpu": "32", "memory": "200Gi"})
    left = ("16000m", str(200 * 1024**3))
    assert share(room.turn(room.replica(second).id)) == left
    room.runs(room.replica(second).id, asks={GPU: "4", "cpu": left[0], "memory": left[1]})
    del room.pods[name_of(room.replica(second).id)]
    assert share(room.turn(room.replica(second).id)) == left


def test_a_container_gets_what_one_that_ended_still_has(room: Rows) -> None:
    cluster_id = room.cluster(gpusPerReplica=8)
    room.runs(room.replica(cluster_id).id, asks={GPU: "8", "cpu": "64", "memory": "600Gi"})
    room.runs(room.replica(room.cluster(name="cpu", **CPU_ONLY)).id, asks={"cpu": "32", "memory": "200Gi"})
    room.end(cluster_id)
    follows = room.replica(room.cluster(name="next"))
    assert share(room.turn(follows.id)) == ("8000m", str(75 * 1024**3))
