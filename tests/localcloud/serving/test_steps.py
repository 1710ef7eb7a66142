"""The tables of deployments as a whole, and which replicas they drain and place, over every small constellation."""

from __future__ import annotations

from itertools import product

import pytest

from relay_localcloud.http.outcomes import Move, Refusal
from relay_localcloud.replicas.census import Census
from relay_localcloud.replicas.states import ReplicaState
from relay_localcloud.replicas.steps import Intent, Member, next_steps
from relay_localcloud.serving.lanes import Lane
from relay_localcloud.serving.states import SERVING, TRANSITIONS, Trigger, derived_status
from relay_wire.serving import DeploymentStatus

LIVE = [
    ReplicaState.PROVISIONING,
    ReplicaState.HEALTHY,
    ReplicaState.UNHEALTHY,
    ReplicaState.LOST,
    ReplicaState.STOPPING,
]
MEMBERS = [
    [
        Member(f"r{number}", state, is_outdated=outdated, is_overdue=state is ReplicaState.LOST and outdated)
        for number, (state, outdated) in enumerate(chosen)
    ]
    for size in range(4)
    for chosen in product(list(product(LIVE, [False, True])), repeat=size)
]


def healthy(members: list[Member]) -> int:
    return sum(member.state is ReplicaState.HEALTHY for member in members)


def test_every_status_has_an_outcome_for_every_trigger_and_only_calls_are_refused() -> None:
    assert set(TRANSITIONS) == {(status, trigger) for status in DeploymentStatus for trigger in Trigger}
    refused = {trigger for (_, trigger), outcome in TRANSITIONS.items() if isinstance(outcome, Refusal)}
    assert refused == {Trigger.SCALE, Trigger.CHANGE, Trigger.PROMOTE}
    for status in DeploymentStatus:
        assert TRANSITIONS[status, Trigger.DELETE] == Move(DeploymentStatus.DRAINING)


def test_a_thousand_replicas_are_not_compared_with_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    members = [Member(f"r{number}", ReplicaState.HEALTHY) for number in range(1_000)]

    def compared(one: Member, other: object) -> bool:
        raise AssertionError(f"{one} was compared with {other}")

    monkeypatch.setattr(Member, "__eq__", compared)
    assert len(next_steps(Intent(1), members).drained) == 999


@pytest.mark.parametrize("wanted", [0, 1, 2, 3])
@pytest.mark.parametrize("max_unavailable", [1, 2])
def test_steps_end_with_as_many_as_are_wanted_and_keep_enough_serving(wanted: int, max_unavailable: int) -> None:
    for members in MEMBERS:
        steps = next_steps(Intent(wanted, max_unavailable), members)
        staying = [member for member in members if member.state is not ReplicaState.STOPPING]
        kept = [member for member in staying if member.id not in steps.drained]
        assert len(set(steps.drained)) == len(steps.drained)
        assert {member.id for member in staying} >= set(steps.drained)
        assert len(kept) + steps.missing == wanted
        assert set(steps.overdue) == {member.id for member in kept if member.is_overdue}
        enough = min(healthy(staying), wanted - max_unavailable)
        assert healthy(kept) >= enough, (members, steps)


def test_what_does_not_serve_goes_before_what_does() -> None:
    for members in MEMBERS:
        current = [member for member in members if not member.is_outdated]
        steps = next_steps(Intent(1, 9), current)
        staying = [member for member in current if member.state is not ReplicaState.STOPPING]
        drained = [member for member in staying if member.id in steps.drained]
        kept = [member for member in staying if member.id not in steps.drained]
        assert healthy(drained) == 0 or healthy(kept) == len(kept), (members, steps)


@pytest.mark.parametrize("leaving", [1, 2])
def test_what_leaves_drains_so_many_at_a_time(leaving: int) -> None:
    for members in MEMBERS:
        steps = next_steps(Intent(0, 1, leaving), members)
        draining = sum(member.state is ReplicaState.STOPPING for member in members)
        assert len(steps.drained) == min(len(members) - draining, max(0, leaving - draining))
        assert steps.missing == 0


def test_an_outdated_replica_goes_only_while_the_others_serve() -> None:
    old = [Member("a", ReplicaState.HEALTHY, is_outdated=True), Member("b", ReplicaState.HEALTHY, is_outdated=True)]
    assert next_steps(Intent(2, 1), old).drained == ("a",)
    coming = [old[1], Member("c", ReplicaState.PROVISIONING)]
    assert next_steps(Intent(2, 1), coming).drained == ()
    assert next_steps(Intent(2, 1), [old[1], Member("c", ReplicaState.HEALTHY)]).drained == ("b",)


@pytest.mark.parametrize(
    ("status", "census", "after"),
    [
        (DeploymentStatus.PROVISIONING, Census(1, starting=("a",)), DeploymentStatus.PROVISIONING),
        (DeploymentStatus.PROVISIONING, Census(1, healthy=("a",)), DeploymentStatus.RUNNING),
        (DeploymentStatus.RUNNING, Census(2, healthy=("a",), starting=("b",)), DeploymentStatus.RUNNING),
        (DeploymentStatus.RUNNING, Census(1, starting=("b",)), DeploymentStatus.PROVISIONING),
        (DeploymentStatus.DEGRADED, Census(2, healthy=("a",), starting=("b",)), DeploymentStatus.DEGRADED),
        (DeploymentStatus.RUNNING, Census(2, healthy=("a",)), DeploymentStatus.DEGRADED),
        (DeploymentStatus.RUNNING, Census(1, unhealthy=("a",)), DeploymentStatus.DEGRADED),
        (DeploymentStatus.RUNNING, Census(1, lost=("a",)), DeploymentStatus.DEGRADED),
        (DeploymentStatus.RUNNING, Census(0), DeploymentStatus.IDLE),
        (DeploymentStatus.IDLE, Census(1, starting=("a",)), DeploymentStatus.PROVISIONING),
    ],
)
def test_a_serving_status_follows_from_the_replicas(
    status: DeploymentStatus, census: Census, after: DeploymentStatus
) -> None:
    assert derived_status(status, census) is after
    assert after in SERVING


@pytest.mark.parametrize(
    ("lane", "taken"),
    [
        (Lane("p", 0, 0), [0, 1, 9, 10, 11]),
        (Lane("p", 1, 10), [1, 9]),
        (Lane("p", 10, 0), [10, 11]),
        (Lane("p", 0, 1), [0]),
    ],
)
def test_a_lane_takes_its_floor_and_not_its_ceiling(lane: Lane, taken: list[int]) -> None:
    assert [size for size in (0, 1, 9, 10, 11) if lane.takes(size)] == taken
