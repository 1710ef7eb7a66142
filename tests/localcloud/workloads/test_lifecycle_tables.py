"""The transition tables as a whole: nothing is undecided, and money and GPUs follow the states."""

from __future__ import annotations

import pytest

from relay_localcloud.clusters.states import (
    CLUSTER_TRANSITIONS,
    ClusterEffect,
    ClusterMove,
    ClusterTrigger,
    derived_status,
)
from relay_localcloud.kernel.outcomes import Refusal, Stay
from relay_localcloud.replicas.census import Census, degradation
from relay_localcloud.replicas.states import REPLICA_TRANSITIONS, ReplicaEffect, ReplicaState, ReplicaTrigger
from relay_localcloud.workloads.transitions import (
    BILLED,
    HOLDS_GPUS,
    TRANSITIONS,
    Effect,
    Home,
    Move,
    Timer,
    Trigger,
    start_refusal,
)
from relay_wire.clusters import ClusterStatus
from relay_wire.pods import PodStatus

MOVES = [(state, trigger, move) for (state, trigger), move in TRANSITIONS.items() if isinstance(move, Move)]
CALLS = {Trigger.STOP, Trigger.RESTART, Trigger.TERMINATE}
REPLICA_BILLED = {ReplicaState.HEALTHY, ReplicaState.UNHEALTHY}


def test_every_state_has_an_outcome_for_every_trigger() -> None:
    assert set(TRANSITIONS) == {(state, trigger) for state in PodStatus for trigger in Trigger}
    assert set(CLUSTER_TRANSITIONS) == {(status, trigger) for status in ClusterStatus for trigger in ClusterTrigger}


def test_only_calls_are_refused() -> None:
    assert {trigger for (_, trigger), outcome in TRANSITIONS.items() if isinstance(outcome, Refusal)} <= CALLS


@pytest.mark.parametrize(("state", "trigger", "move"), MOVES)
def test_a_move_starts_and_stops_billing_as_its_states_say(state: PodStatus, trigger: Trigger, move: Move) -> None:
    del trigger
    if state not in BILLED and move.to in BILLED:
        assert Effect.START_BILLING in move.effects
    if state in BILLED and move.to not in BILLED:
        assert Effect.STOP_BILLING in move.effects
    if state in BILLED and move.to in BILLED:
        assert not {Effect.START_BILLING, Effect.STOP_BILLING} & set(move.effects), "billing continues"


@pytest.mark.parametrize(("state", "trigger", "move"), MOVES)
def test_a_move_claims_and_releases_gpus_as_its_states_say(state: PodStatus, trigger: Trigger, move: Move) -> None:
    del trigger
    if state not in HOLDS_GPUS and move.to in HOLDS_GPUS:
        assert Effect.CLAIM_GPUS in move.effects
    if state in HOLDS_GPUS and move.to not in HOLDS_GPUS:
        assert Effect.RELEASE_GPUS in move.effects
    if state in HOLDS_GPUS and move.to in HOLDS_GPUS:
        assert not {Effect.CLAIM_GPUS, Effect.RELEASE_GPUS} & set(move.effects), "the reservation stays"


@pytest.mark.parametrize(("state", "trigger", "move"), MOVES)
def test_reaching_running_stopped_or_terminated_is_told_once(state: PodStatus, trigger: Trigger, move: Move) -> None:
    del trigger
    told = {
        PodStatus.RUNNING: Effect.TELL_RUNNING,
        PodStatus.STOPPED: Effect.TELL_STOPPED,
        PodStatus.TERMINATED: Effect.TELL_TERMINATED,
    }
    for status, effect in told.items():
        assert move.effects.count(effect) == (1 if move.to is status and state is not status else 0)


@pytest.mark.parametrize(("state", "trigger", "move"), MOVES)
def test_the_cloud_deletes_nothing_by_itself_without_an_email_first(
    state: PodStatus, trigger: Trigger, move: Move
) -> None:
    del state
    if move.to is PodStatus.TERMINATED and trigger is not Trigger.TERMINATE:
        assert move.effects[0] is Effect.SEND_EMAIL


@pytest.mark.parametrize(("state", "trigger", "move"), MOVES)
def test_states_that_end_by_themselves_have_a_timer(state: PodStatus, trigger: Trigger, move: Move) -> None:
    del state, trigger
    timers = {
        PodStatus.DEPLOYING: Timer.START,
        PodStatus.STOPPING: Timer.STOP,
        PodStatus.STOPPED: Timer.RETENTION_IF_UNFUNDED,
        PodStatus.INTERRUPTED: Timer.RETENTION,
    }
    assert move.timer is timers.get(move.to)


def test_terminated_is_the_end() -> None:
    for trigger in Trigger:
        assert isinstance(TRANSITIONS[PodStatus.TERMINATED, trigger], Refusal | Stay)


@pytest.mark.parametrize(
    ("home", "infiniband", "code"),
    [
        (Home(reporting=True, free_gpus=2, infiniband_agent=True), True, None),
        (Home(reporting=True, free_gpus=2, infiniband_agent=False), False, None),
        (Home(reporting=True, free_gpus=1, infiniband_agent=True), True, "POD_NODE_BUSY"),
        (Home(reporting=True, free_gpus=2, infiniband_agent=False), True, "POD_NODE_NO_INFINIBAND"),
        (Home(reporting=False, free_gpus=0, infiniband_agent=False), True, "POD_NODE_OFFLINE"),
    ],
)
def test_a_start_is_refused_for_the_gravest_reason(home: Home, infiniband: bool, code: str | None) -> None:
    refusal = start_refusal(home, 2, infiniband)
    assert (refusal and refusal.code) == code


def test_replicas_are_billed_while_their_container_runs_on_a_node_that_reports() -> None:
    for (state, _), move in REPLICA_TRANSITIONS.items():
        if state not in REPLICA_BILLED and move.to in REPLICA_BILLED:
            assert ReplicaEffect.START_BILLING in move.effects
        if state in REPLICA_BILLED and move.to not in REPLICA_BILLED:
            assert ReplicaEffect.STOP_BILLING in move.effects
        if state in REPLICA_BILLED and move.to in REPLICA_BILLED:
            assert not {ReplicaEffect.START_BILLING, ReplicaEffect.STOP_BILLING} & set(move.effects)


def test_changes_of_replicas_are_told() -> None:
    for (state, _), move in REPLICA_TRANSITIONS.items():
        assert (ReplicaEffect.TELL_HEALTHY in move.effects) == (move.to is ReplicaState.HEALTHY)
        assert (ReplicaEffect.TELL_TERMINATED in move.effects) == (move.to is ReplicaState.TERMINATED)
        unhealthy = {ReplicaState.UNHEALTHY, ReplicaState.LOST}
        assert (ReplicaEffect.TELL_UNHEALTHY in move.effects) == (move.to in unhealthy and state not in unhealthy)


def test_every_live_replica_can_be_stopped_lost_and_terminated() -> None:
    for state in ReplicaState:
        ended = REPLICA_TRANSITIONS.get((state, ReplicaTrigger.TERMINATE))
        assert (ended is None) == (state is ReplicaState.TERMINATED)
        assert ended is None or ReplicaEffect.GIVE_BACK in ended.effects
        runs = state not in {ReplicaState.STOPPING, ReplicaState.TERMINATED}
        assert ((state, ReplicaTrigger.STOP) in REPLICA_TRANSITIONS) == runs
        lost = runs and state is not ReplicaState.LOST
        assert ((state, ReplicaTrigger.NODE_SILENT) in REPLICA_TRANSITIONS) == lost


def test_a_cluster_that_leaves_service_keeps_no_replica() -> None:
    ends = {ClusterStatus.FAILED, ClusterStatus.STOPPED, ClusterStatus.TERMINATED}
    for move in CLUSTER_TRANSITIONS.values():
        if isinstance(move, ClusterMove) and move.to in ends:
            assert ClusterEffect.TERMINATE_REPLICAS in move.effects


@pytest.mark.parametrize(
    ("before", "census", "after"),
    [
        (ClusterStatus.PROVISIONING, Census(2, starting=["a", "b"]), ClusterStatus.PROVISIONING),
        (ClusterStatus.PROVISIONING, Census(2, healthy=["a"], starting=["b"]), ClusterStatus.PROVISIONING),
        (ClusterStatus.PROVISIONING, Census(2, healthy=["a", "b"]), ClusterStatus.RUNNING),
        (ClusterStatus.PROVISIONING, Census(2, starting=["a"]), ClusterStatus.DEGRADED),
        (ClusterStatus.RUNNING, Census(2, healthy=["a"], starting=["b"]), ClusterStatus.RUNNING),
        (ClusterStatus.RUNNING, Census(2, healthy=["a"], unhealthy=["b"]), ClusterStatus.DEGRADED),
        (ClusterStatus.RUNNING, Census(2, healthy=["a"], lost=["b"]), ClusterStatus.DEGRADED),
        (ClusterStatus.DEGRADED, Census(2, healthy=["a"], starting=["b"]), ClusterStatus.DEGRADED),
        (ClusterStatus.DEGRADED, Census(2, healthy=["a", "b"]), ClusterStatus.RUNNING),
    ],
)
def test_the_status_of_a_serving_cluster_follows_from_its_replicas(
    before: ClusterStatus, census: Census, after: ClusterStatus
) -> None:
    assert derived_status(before, census) is after


def test_the_reason_says_what_and_which() -> None:
    census = Census(6, healthy=["rep_a"], starting=["rep_b"], unhealthy=["rep_c"], lost=["rep_d"])
    assert degradation(census, "2 x h100") == (
        "1 of 6 replicas are healthy. Failing health checks: rep_c. On nodes that do not report: rep_d. "
        "Starting: rep_b. Waiting for room for 2 more (2 x h100 each)."
    )
