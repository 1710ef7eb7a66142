"""The states of replicas: every cell, what happens on the way, and how they are summed up."""

from __future__ import annotations

import pytest

from relay_localcloud.replicas.census import Census, degradation
from relay_localcloud.replicas.rows import Replica
from relay_localcloud.replicas.states import (
    REPLICA_TRANSITIONS,
    SILENT,
    ReplicaEffect,
    ReplicaMove,
    ReplicaState,
    ReplicaTrigger,
)
from tests.localcloud.support.cells import cell_of, cells

TABLE = """
                 provisioning  starting    healthy     unhealthy     recovering    failed      lost          unreached     stopping    terminated
STARTED          healthy       -           -           -             -             -           -             lost          -           -
CONTAINER_RUNS   starting      -           -           -             -             -           -             -             -           -
CONTAINER_AWAY   -             -           recovering  recovering    -             -           -             -             -           -
CONTAINER_FAILED failed        failed      failed      failed        failed        -           -             -             -           -
CHECK_FAILED     -             -           unhealthy   -             -             -           -             -             -           -
CHECK_PASSED     -             healthy     -           healthy       healthy       -           -             -             -           -
RESTART          -             starting    healthy     provisioning  provisioning  terminated  -             -             -           -
NODE_SILENT      unreached     unreached   lost        lost          lost          -           -             -             -           -
NODE_RETURNED    -             -           -           -             -             -           healthy       provisioning  -           -
NODE_SEEN_AGAIN  -             -           -           -             -             -           provisioning  provisioning  -           -
HELD_UP          -             provisioning -          -             provisioning  -           -             -             -           -
STOP             stopping      stopping    stopping    stopping      stopping      terminated  stopping      stopping      -           -
TERMINATE        terminated    terminated  terminated  terminated    terminated    terminated  terminated    terminated    terminated  -
"""  # noqa: E501 - as people read it

BILLED = {ReplicaState.STARTING, ReplicaState.HEALTHY, ReplicaState.UNHEALTHY, ReplicaState.RECOVERING}
FAILING = {ReplicaState.UNHEALTHY, ReplicaState.RECOVERING, ReplicaState.FAILED, *SILENT}
TOLD_AT = {
    ReplicaState.HEALTHY: ReplicaEffect.TELL_HEALTHY,
    ReplicaState.UNHEALTHY: ReplicaEffect.TELL_UNHEALTHY,
    ReplicaState.RECOVERING: ReplicaEffect.TELL_UNHEALTHY,
    ReplicaState.FAILED: ReplicaEffect.TELL_UNHEALTHY,
    ReplicaState.LOST: ReplicaEffect.TELL_UNHEALTHY,
    ReplicaState.UNREACHED: ReplicaEffect.TELL_UNHEALTHY,
    ReplicaState.TERMINATED: ReplicaEffect.TELL_TERMINATED,
}
ON_ARRIVAL = {
    ReplicaState.PROVISIONING: ReplicaEffect.WANT_STARTED,
    ReplicaState.STOPPING: ReplicaEffect.WANT_STOPPED,
    ReplicaState.FAILED: ReplicaEffect.GIVE_BACK,
    ReplicaState.TERMINATED: ReplicaEffect.GIVE_BACK,
}
IN_PLACE: dict[tuple[ReplicaState, ReplicaTrigger], set[ReplicaEffect]] = {
    (ReplicaState.HEALTHY, ReplicaTrigger.RESTART): {ReplicaEffect.WANT_RESTARTED},
    (ReplicaState.STARTING, ReplicaTrigger.RESTART): {ReplicaEffect.WANT_RESTARTED},
    (ReplicaState.LOST, ReplicaTrigger.NODE_SEEN_AGAIN): set(),
    (ReplicaState.UNREACHED, ReplicaTrigger.NODE_SEEN_AGAIN): set(),
    (ReplicaState.UNREACHED, ReplicaTrigger.NODE_RETURNED): set(),
    (ReplicaState.STARTING, ReplicaTrigger.HELD_UP): set(),
    (ReplicaState.RECOVERING, ReplicaTrigger.HELD_UP): set(),
}
"""What leads to where it is, or to what was wanted all along."""
MONEY = {ReplicaEffect.START_BILLING, ReplicaEffect.STOP_BILLING}


def test_the_table_has_every_state_and_trigger() -> None:
    written = {(state, trigger) for state, trigger, _ in cells(TABLE)}
    assert written == {(state.value, trigger.name) for state in ReplicaState for trigger in ReplicaTrigger}


@pytest.mark.parametrize(("state", "trigger", "cell"), cells(TABLE))
def test_what_a_trigger_does(state: str, trigger: str, cell: str) -> None:
    assert cell_of(REPLICA_TRANSITIONS.get((ReplicaState(state), ReplicaTrigger[trigger]))) == cell


@pytest.mark.parametrize(("cell", "move"), REPLICA_TRANSITIONS.items())
def test_what_a_move_gives_back_and_tells(cell: tuple[ReplicaState, ReplicaTrigger], move: ReplicaMove) -> None:
    still_failing = cell[0] in FAILING and move.to in FAILING
    told = None if still_failing else TOLD_AT.get(move.to)
    said = IN_PLACE.get(cell, {told, ON_ARRIVAL.get(move.to)} - {None})
    assert set(move.effects) - MONEY == said


@pytest.mark.parametrize(("cell", "move"), REPLICA_TRANSITIONS.items())
def test_replicas_are_billed_while_their_container_runs_on_a_node_that_reports(
    cell: tuple[ReplicaState, ReplicaTrigger], move: ReplicaMove
) -> None:
    was, is_now = cell[0] in BILLED, move.to in BILLED
    if was == is_now and move.to is not ReplicaState.TERMINATED and move.to is not ReplicaState.STOPPING:
        assert not MONEY & set(move.effects)
    else:
        assert MONEY & set(move.effects) == {ReplicaEffect.START_BILLING if is_now else ReplicaEffect.STOP_BILLING}


def test_the_reason_says_what_and_which() -> None:
    census = Census(6, healthy=["rep_a"], starting=["rep_b"], unhealthy=["rep_c"], lost=["rep_d"])
    assert degradation(census, "2 x h100") == (
        "1 of 6 replicas are healthy. Failing health checks: rep_c. On nodes that do not report: rep_d. "
        "Starting: rep_b. Waiting for room for 2 more (2 x h100 each)."
    )


def test_what_replicas_say_is_told_with_how_many_say_it() -> None:
    def member(name: str, status: ReplicaState, reason: str | None) -> Replica:
        return Replica(1, name, "any", None, status, 0, reason=reason)

    said = [
        member("rep_a", ReplicaState.RECOVERING, "CONTAINER_EXITED: exit code 3"),
        member("rep_b", ReplicaState.FAILED, "app:1: not found"),
        member("rep_c", ReplicaState.PROVISIONING, "app:1: not found"),
        member("rep_d", ReplicaState.STOPPING, "of no interest"),
    ]
    census = Census.of(3, said)
    assert census.said == "rep_a: CONTAINER_EXITED: exit code 3 rep_b and 1 more: app:1: not found"
    assert degradation(census, "small") == (
        "0 of 3 replicas are healthy. Starting again: rep_a. Given up: rep_b. Starting: rep_c. " + census.said
    )
    assert not census.is_hopeless
    assert Census.of(1, said[1:2]).is_hopeless
    assert Census.of(1, [member("rep_a", ReplicaState.HEALTHY, None)]).said is None
