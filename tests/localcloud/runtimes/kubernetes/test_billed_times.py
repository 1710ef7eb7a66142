"""What is billed is what ran, by the kubelet's times, however late the cloud sees it; never twice, never the future."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from relay_localcloud.kernel import due
from relay_localcloud.kernel.instants import DAY, HOUR, MINUTE, SECOND, seconds, timestamp
from relay_localcloud.money import billing, usage
from relay_localcloud.money.accrual import month_end, month_start
from relay_localcloud.providers import node_events
from relay_localcloud.replicas.states import ReplicaState
from relay_localcloud.runtimes.kubernetes.facts import LEAVES_WITHIN, SCHEDULED_WITHIN, START_WITHIN, STUCK
from relay_localcloud.runtimes.kubernetes.names import name_of
from relay_localcloud.runtimes.kubernetes.observed import Event
from relay_localcloud.runtimes.kubernetes.situations import REMADE_AFTER, Step
from relay_localcloud.runtimes.kubernetes.wanted import Terms
from relay_localcloud.workloads.transitions import Trigger
from relay_wire.pods import PodStatus

if TYPE_CHECKING:
    from tests.localcloud.runtimes.kubernetes.rows import Rows


def started(room: Rows, holder_id: str, at: int) -> None:
    """The container of a holder runs since an instant of the kubelet's clock, and the cloud sees it now."""
    now = room.now
    room.now = at + room.ahead
    pod = room.running(holder_id)
    room.now = now
    room.pods[name_of(holder_id)] = pod
    room.turn(holder_id)


def ended(since: int, until: int) -> Any:
    """How a container ended."""
    times = {"startedAt": timestamp(since), "finishedAt": timestamp(until)}
    return {"exitCode": 137, "reason": "Error", **times}


@pytest.fixture(params=["pod", "replica"])
def holder_id(request: pytest.FixtureRequest, room: Rows) -> str:
    """The id of a pod, or of a cluster's replica, that the cloud has just been asked for."""
    return room.pod() if request.param == "pod" else room.replica(room.cluster()).id


def test_what_started_during_an_outage_is_billed_since_then(room: Rows, holder_id: str) -> None:
    began = room.now + 3 * MINUTE
    room.now += 8 * HOUR
    started(room, holder_id, began)
    assert room.billed(holder_id) == [(began, None)]


def test_nothing_is_billed_before_it_was_asked_for_nor_in_the_future(room: Rows) -> None:
    first, second, asked = room.pod(), room.pod(), room.now
    room.now += MINUTE
    started(room, first, asked - HOUR)
    started(room, second, room.now + HOUR)
    assert (room.billed(first), room.billed(second)) == ([(asked, None)], [(room.now, None)])


def test_what_ended_for_good_during_an_outage_is_billed_until_then(room: Rows, holder_id: str) -> None:
    began = room.now + MINUTE
    room.now = began
    started(room, holder_id, began)
    room.now += 8 * HOUR
    room.ends(holder_id, "Evicted", terminated=ended(began, began + HOUR))
    assert room.billed(holder_id) == [(began, began + HOUR)]


def test_what_started_and_ended_for_good_during_an_outage_is_billed_for_that_time(room: Rows, holder_id: str) -> None:
    began = room.now + MINUTE
    room.now += 8 * HOUR
    room.ends(holder_id, "Evicted", terminated=ended(began, began + HOUR))
    assert room.billed(holder_id) == [(began, began + HOUR)]


def test_what_was_drained_during_an_outage_is_billed_until_its_kubelet_ended_it(room: Rows, holder_id: str) -> None:
    began, room.ahead = room.now, MINUTE
    started(room, holder_id, began)
    room.now += 8 * HOUR
    room.node(cordoned=True)
    room.pods.clear()
    for event in ({"reason": "Killing", "lastTimestamp": timestamp(began + HOUR)}, {"reason": "Pulled"}):
        room.events.append(Event.model_validate(event))
    room.turn(holder_id)
    assert room.billed(holder_id) == [(began, began + HOUR + room.ahead)]


@pytest.mark.parametrize("cordoned", [False, True])
@pytest.mark.parametrize("killed", [False, True])
def test_what_somebody_deleted_during_an_outage_is_billed_for_as_long_as_it_is_known_to_have_run(
    room: Rows, holder_id: str, killed: bool, cordoned: bool
) -> None:
    room.offer = replace(room.offer, terms=Terms("mine", "fast"))
    began, room.ahead = room.now, MINUTE
    started(room, holder_id, began)
    room.now += HOUR
    room.away_since = ended = room.now
    room.now += 8 * HOUR
    if killed:
        ended += MINUTE
        event = {"reason": "Killing", "lastTimestamp": timestamp(ended - room.ahead)}
        room.events.append(Event.model_validate(event))
    room.node(cordoned=cordoned)
    room.pods.clear()
    room.turn(holder_id)
    assert room.billed(holder_id) == [(began, ended)]
    room.away_since = None
    room.now += MINUTE
    room.node()
    room.turn(holder_id)
    started(room, holder_id, room.now)
    assert room.billed(holder_id) == [(began, ended), (room.now, None)]


def test_what_was_being_replaced_when_an_outage_began_is_billed_until_then(room: Rows, holder_id: str) -> None:
    began = room.now
    started(room, holder_id, began)
    room.now += HOUR
    room.runs(holder_id, deletionTimestamp=timestamp(room.now))
    room.away_since = room.now
    room.pods.clear()
    room.now += 8 * HOUR
    room.turn(holder_id)
    assert room.billed(holder_id) == [(began, room.away_since)]


def test_what_somebody_deletes_while_it_is_seen_runs_on_with_the_reason(room: Rows) -> None:
    room.offer = replace(room.offer, terms=Terms("mine", "fast"))
    pod_id, began = room.pod(), room.now
    started(room, pod_id, began)
    room.now += HOUR
    room.pods.clear()
    assert room.turn(pod_id).step is Step.MAKE
    assert room.workload(pod_id).status is PodStatus.RUNNING
    assert room.billed(pod_id) == [(began, None)]


def test_what_is_deleted_and_does_not_leave_is_billed_until_it_was_to_end(room: Rows, holder_id: str) -> None:
    began, room.ahead = room.now, MINUTE
    started(room, holder_id, began)
    room.now += HOUR
    to_end = room.now
    room.runs(holder_id, deletionTimestamp=timestamp(room.wall()))
    assert room.billed(holder_id) == [(began, None)]
    for _ in range(2):
        room.now += LEAVES_WITHIN
        assert room.turn(holder_id).step is Step.NOTHING
        assert room.billed(holder_id) == [(began, to_end)]
    started(room, holder_id, room.now)
    assert room.billed(holder_id) == [(began, to_end), (room.now, None)]


def test_a_pod_that_is_restarted_while_the_former_one_does_not_leave_waits_and_says_so(room: Rows) -> None:
    room.offer = replace(room.offer, terms=Terms("mine", "fast"))
    pod_id, began = room.pod(), room.now
    started(room, pod_id, began)
    room.now += HOUR
    to_end = room.now
    room.move(pod_id, Trigger.RESTART)
    room.runs(pod_id, deletionTimestamp=timestamp(to_end))
    assert room.workload(pod_id).status is PodStatus.RUNNING
    room.now += LEAVES_WITHIN
    for _ in range(2):
        assert room.turn(pod_id).step is Step.NOTHING
        waiting = room.workload(pod_id)
        assert (waiting.status, waiting.status_reason) == (PodStatus.DEPLOYING, STUCK)
    room.pods.clear()
    assert room.turn(pod_id).step is Step.MAKE
    room.runs(pod_id, start=2)
    assert (room.workload(pod_id).status, room.workload(pod_id).status_reason) == (PodStatus.RUNNING, None)
    assert room.billed(pod_id) == [(began, to_end), (room.now, None)]


def test_a_container_whose_end_is_unknown_is_billed_until_that_is_seen(room: Rows) -> None:
    pod_id, began = room.pod(), room.now
    started(room, pod_id, began)
    room.now += HOUR
    room.ends(pod_id, "Evicted", terminated={"exitCode": 137, "reason": "ContainerStatusUnknown"})
    assert room.billed(pod_id) == [(began, room.now)]


def test_what_gets_no_gpu_again_is_billed_until_its_pod_was_made_again(room: Rows, holder_id: str) -> None:
    began = room.now
    started(room, holder_id, began)
    room.now += HOUR
    room.unplaced(holder_id)
    room.turn(holder_id)
    made = room.now
    assert room.billed(holder_id) == [(began, None)]
    room.now += SCHEDULED_WITHIN
    room.turn(holder_id)
    assert room.billed(holder_id) == [(began, made)]


def test_what_never_gets_a_gpu_is_not_billed(room: Rows, holder_id: str) -> None:
    room.unplaced(holder_id)
    for _ in range(2):
        room.turn(holder_id)
        room.now += SCHEDULED_WITHIN
    assert room.billed(holder_id) == []


@pytest.mark.parametrize("how", ["rejected by its kubelet", "refused by the API server"])
def test_what_is_not_taken_again_is_billed_until_that_began(room: Rows, how: str) -> None:
    holder_id, began = room.replica(room.cluster()).id, room.now
    started(room, holder_id, began)
    room.now += HOUR
    room.pods.clear()
    since = room.now
    for _ in range(2):
        if how.startswith("refused"):
            room.refused(holder_id)
        else:
            room.ends(holder_id, "UnexpectedAdmissionError")
        room.now += START_WITHIN
    assert room.billed(holder_id) == [(began, since)]


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("words", ["InternalError: failed calling webhook", None], ids=["5xx", "no answer"])
def test_what_the_api_server_does_not_take_again_is_billed_until_its_former_pod_was_gone(
    room: Rows, words: str | None, restarted: bool
) -> None:
    room.offer = replace(room.offer, terms=Terms("mine", "fast"))
    pod_id, began = room.pod(), room.now
    started(room, pod_id, began)
    room.now += HOUR
    if restarted:
        room.move(pod_id, Trigger.RESTART)
    room.pods.clear()
    gone = room.now
    for _ in range(2):
        room.refused(pod_id, words, is_final=False, after=MINUTE)
        waiting = room.workload(pod_id)
        assert waiting.status is PodStatus.DEPLOYING
        assert waiting.status_reason == (words or (None if restarted else "Its Pod was deleted."))
        assert room.billed(pod_id) == [(began, gone)]
    room.runs(pod_id, start=1 + restarted)
    assert (room.workload(pod_id).status, room.workload(pod_id).status_reason) == (PodStatus.RUNNING, None)
    assert room.billed(pod_id) == [(began, gone), (room.now, None)]


def test_a_replica_that_the_api_server_does_not_take_again_is_not_billed_meanwhile(room: Rows) -> None:
    cluster_id = room.cluster()
    replica, began = room.replica(cluster_id), room.now
    started(room, replica.id, began)
    room.now += HOUR
    room.pods.clear()
    gone = room.now
    for _ in range(2):
        room.refused(replica.id, "InternalError: failed calling webhook", is_final=False, after=MINUTE)
        assert room.replica(cluster_id).status is ReplicaState.PROVISIONING
        assert room.replica(cluster_id).reason == "InternalError: failed calling webhook"
    started(room, replica.id, room.now)
    assert room.replica(cluster_id).status is ReplicaState.HEALTHY
    assert room.billed(replica.id) == [(began, gone), (room.now, None)]


def test_what_cannot_be_ended_for_a_restart_runs_on_and_is_billed(room: Rows) -> None:
    room.offer = replace(room.offer, terms=Terms("mine", "fast"))
    pod_id, began = room.pod(), room.now
    started(room, pod_id, began)
    room.move(pod_id, Trigger.RESTART)
    for words in ("InternalError: failed calling webhook", None):
        room.refused(pod_id, words, is_final=False)
        assert room.workload(pod_id).status is PodStatus.RUNNING
    assert room.billed(pod_id) == [(began, None)]


def test_an_interruption_is_not_billed_although_the_container_ran_on(room: Rows) -> None:
    pod_id, began = room.pod(), room.now
    started(room, pod_id, began)
    room.node(reports=False)
    room.now += HOUR
    lost = room.now
    room.move(pod_id, Trigger.NODE_LOST)
    room.now += HOUR
    room.node()
    started(room, pod_id, began)
    assert room.workload(pod_id).status is PodStatus.RUNNING
    assert room.billed(pod_id) == [(began, lost), (room.now, None)]


def test_a_replica_that_was_lost_is_not_billed_for_that_time(room: Rows) -> None:
    cluster_id = room.cluster()
    replica, began = room.replica(cluster_id), room.now
    started(room, replica.id, began)
    room.now += HOUR
    lost = room.now
    room.node(reports=False)
    room.now += MINUTE
    room.node()
    started(room, replica.id, began)
    assert room.replica(cluster_id).status is ReplicaState.HEALTHY
    assert room.billed(replica.id) == [(began, lost), (room.now, None)]


@pytest.mark.parametrize("ahead", [0, HOUR])
def test_a_node_that_fell_silent_during_an_outage_is_paid_as_if_that_had_been_seen(room: Rows, ahead: int) -> None:
    room.ahead = ahead
    pod_id, cluster_id = room.pod(), room.cluster()
    replica, began = room.replica(cluster_id), room.now
    for each in (pod_id, replica.id):
        started(room, each, room.wall())
    room.now += 8 * HOUR
    silent = began + HOUR
    room.node(reports=False, since=silent - ahead)
    with room.tx() as tx:
        grace = seconds(tx.settings.interruption_grace_seconds)
    assert room.workload(pod_id).status is PodStatus.INTERRUPTED
    assert (room.billed(pod_id), room.billed(replica.id)) == ([(began, silent + grace)], [(began, silent)])


def test_a_replica_that_started_after_its_node_fell_silent_lengthens_no_other_run(room: Rows) -> None:
    room.now = month_end(month_start(room.now))
    cluster_id, began = room.cluster(replicaCount=2), room.now
    first, second = room.replicas(cluster_id)
    started(room, first.id, began)
    room.now += 3 * HOUR
    started(room, second.id, room.now)
    silent = began + HOUR
    room.node(reports=False, since=silent)
    assert room.billed(first.id) == [(began, silent)]
    assert room.billed(second.id) == [(room.now, room.now)]
    with room.tx() as tx:
        has = billing.account(tx, room.organization_id)
        used = usage.used_since(tx, room.organization_id, has.meter.month_start, tx.now)
    assert (has.meter.burn, sum(each.total.ran for each in used)) == (0, HOUR)
    assert sum(each.total.units for each in used) == has.meter.accrued_units


def test_a_node_that_fell_silent_just_now_has_the_rest_of_its_grace(room: Rows) -> None:
    room.now = month_end(month_start(room.now)) + DAY
    room.settle()  # the settlement of the month before falls due no more
    pod_id, began = room.pod(), room.now
    started(room, pod_id, began)
    room.now += HOUR
    silent = room.now - SECOND
    room.node(reports=False, since=silent)
    room.settle()
    assert room.workload(pod_id).status is PodStatus.RUNNING
    with room.tx() as tx:
        over = due.next_transition(tx.connection)
        grace = seconds(tx.settings.interruption_grace_seconds)
    assert over is not None
    assert (over.kind, over.due_at) == (node_events.GRACE, silent + grace)


def test_what_ran_over_the_end_of_a_month_is_counted_in_both(room: Rows) -> None:
    room.now = month_end(month_start(room.now)) - 2 * HOUR
    pod_id, began = room.pod(), room.now
    price = room.workload(pod_id).price_per_hour_cents
    room.now += 5 * HOUR
    started(room, pod_id, began)
    with room.tx() as tx:
        meter = billing.account(tx, room.organization_id).meter
        days = usage.by_day(tx, room.organization_id, 2, room.now)
    assert (meter.earlier_units, meter.month_units) == (price * 2 * HOUR, price * 3 * HOUR)
    assert [day.cents for day in days] == [2 * price, 3 * price]
    room.ends(pod_id, "Evicted", terminated=ended(began, began + HOUR))
    with room.tx() as tx:
        meter = billing.account(tx, room.organization_id).meter
        days = usage.by_day(tx, room.organization_id, 2, room.now)
    assert (meter.earlier_units, meter.month_units, meter.burn) == (price * HOUR, 0, 0)
    assert [day.cents for day in days] == [price, 0]


@pytest.mark.parametrize("ahead", [-30 * DAY, HOUR])
def test_a_cloud_whose_clock_is_not_that_of_its_machines_bills_no_pull_of_an_image(room: Rows, ahead: int) -> None:
    room.ahead = ahead
    pod_id = room.pod()
    room.now += 9 * MINUTE
    started(room, pod_id, room.wall() - SECOND)
    ((since, _),) = room.billed(pod_id)
    assert room.now - SECOND <= since <= room.now


def test_a_gap_that_the_cloud_does_not_follow_is_not_billed_nor_what_was_before_it(room: Rows) -> None:
    pod_id = room.pod()
    room.now += 9 * MINUTE
    began = room.now + MINUTE
    room.ahead = -30 * DAY
    started(room, pod_id, began)
    assert room.billed(pod_id) == [(room.now, None)]


@pytest.mark.parametrize("ahead", [-30 * DAY, 0, HOUR])
def test_a_cloud_whose_clock_is_not_that_of_its_machines_waits_as_long_as_others(room: Rows, ahead: int) -> None:
    room.ahead = ahead
    replica = room.replica(cluster_id := room.cluster())
    for _ in range(START_WITHIN // REMADE_AFTER):
        assert room.ends(replica.id, "UnexpectedAdmissionError").step is Step.NOTHING
        room.now += REMADE_AFTER
        assert room.turn(replica.id).step is Step.END
    assert room.replica(cluster_id).status is ReplicaState.FAILED
