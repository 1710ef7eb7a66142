"""Which batch is started, which are deleted, and what is told: CronJob's rules as tables and as properties."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_operator.api.inferencebatchschedule import ConcurrencyPolicy
from relay_operator.flows.schedule.decide import (
    Action,
    AdoptBatch,
    Child,
    CountFrom,
    Decision,
    Matter,
    Outcome,
    Removal,
    Remove,
    StartBatch,
    Tell,
    View,
    active,
    batch_name,
    decide,
    last_success,
)
from tests.unit.flows.schedule.views import NOON, at, child, view

ALLOW, FORBID, REPLACE = ConcurrencyPolicy
ONE, THIRTEEN = at(13), batch_name("nightly", at(13))


def started(decision_of: View, now: datetime) -> list[datetime]:
    """The times whose batches are created."""
    return [action.scheduled for action in decide(decision_of, now).actions if isinstance(action, StartBatch)]


def told(decision_of: View, now: datetime) -> list[tuple[Matter, datetime]]:
    """What is told of which time."""
    actions = decide(decision_of, now).actions
    return [(action.matter, action.scheduled) for action in actions if isinstance(action, Tell)]


def removed(actions: tuple[Action, ...]) -> list[tuple[str, Removal]]:
    """What is deleted, and why."""
    return [(action.child.name, action.why) for action in actions if isinstance(action, Remove)]


def test_a_batch_is_named_for_the_minute_of_its_time() -> None:
    assert batch_name("nightly", NOON) == "nightly-29921040"


@pytest.mark.parametrize(
    ("last", "now", "due"),
    [
        (None, at(12, 59, 59), []),
        (None, at(13), [at(13)]),
        (None, at(13, 0, 30), [at(13)]),
        (None, at(15, 30), [at(15)]),
        (at(13), at(13, 59), []),
        (at(13), at(14), [at(14)]),
        (at(13), at(18, 59), [at(18)]),
        (at(14), at(13, 59), []),
    ],
)
def test_the_latest_time_that_was_not_dealt_with_is_started_once(
    last: datetime | None, now: datetime, due: list[datetime]
) -> None:
    assert started(view(last=last), now) == due


@pytest.mark.parametrize(
    ("deadline", "now", "due", "missed"),
    [
        (60, at(13, 0, 59), [at(13)], []),
        (60, at(13, 1), [], [(Matter.MISSED_SCHEDULE, at(13))]),
        (60, at(16, 30), [], [(Matter.MISSED_SCHEDULE, at(16))]),
        (2 * 3600, at(16, 30), [at(16)], []),
        (None, at(16, 30), [at(16)], []),
        (60, at(12, 30), [], []),
    ],
)
def test_a_time_missed_by_more_than_the_deadline_is_left_out_and_told(
    deadline: int | None, now: datetime, due: list[datetime], missed: list[tuple[Matter, datetime]]
) -> None:
    asked = view(deadline=deadline)
    assert (started(asked, now), told(asked, now)) == (due, missed)


def test_more_than_a_hundred_missed_times_are_told_and_the_latest_is_started() -> None:
    asked = view(schedule="* * * * *")
    assert told(asked, at(13, 40)) == []
    assert told(asked, at(13, 41)) == [(Matter.TOO_MANY_MISSED_TIMES, at(13, 41))]
    assert started(asked, at(13, 41)) == [at(13, 41)]
    assert told(replace(asked, deadline=timedelta(minutes=30)), at(13, 41)) == []


@pytest.mark.parametrize(
    ("now", "last", "following"),
    [
        (at(12, 30), None, at(13)),
        (at(13), None, at(14)),
        (at(13, 30), at(13), at(14)),
        (at(12, 59, 30), at(13), at(14)),
    ],
)
def test_the_next_time_lies_after_now_and_after_the_last(
    now: datetime, last: datetime | None, following: datetime
) -> None:
    assert decide(view(last=last), now).next == following


def test_a_last_time_that_is_still_to_come_is_corrected() -> None:
    ahead = decide(view(last=at(16)), at(12, 30))
    assert ahead == Decision((CountFrom(at(12, 30)),), at(13))


@pytest.mark.parametrize("held", [view(suspended=True), view(paused=True), view(deleting=True)])
def test_what_is_held_back_starts_nothing_and_has_no_next_time(held: View) -> None:
    decision = decide(held, ONE)
    assert (decision.actions, decision.next) == ((), None)


def test_a_schedule_that_cannot_be_read_starts_nothing_and_still_clears_away() -> None:
    old = [child(f"b{age}", Outcome.FAILED, age=age) for age in (20, 10)]
    decision = decide(view(*old, timetable=None), ONE)
    assert (removed(decision.actions), decision.next) == ([("b20", Removal.HISTORY)], None)


def test_suspended_it_still_clears_away_and_paused_it_does_not() -> None:
    old = [child(f"b{age}", Outcome.FAILED, age=age) for age in (20, 10)]
    assert removed(decide(view(*old, suspended=True), ONE).actions) == [("b20", Removal.HISTORY)]
    assert decide(view(*old, paused=True), ONE).actions == ()


def test_what_was_missed_while_suspended_is_started_when_it_goes_on_unless_it_is_too_late() -> None:
    assert started(view(last=at(12)), at(15, 30)) == [at(15)]
    assert started(view(last=at(12), deadline=600), at(15, 30)) == []


@pytest.mark.parametrize(
    ("policy", "others", "starts"),
    [
        (ALLOW, (child("b1"), child("b2", age=10)), True),
        (FORBID, (), True),
        (FORBID, (child("b1"),), False),
        (FORBID, (child("b1", deleting=True),), False),
        (FORBID, (child("b1", Outcome.COMPLETE), child("b2", Outcome.FAILED)), True),
        (REPLACE, (child("b1"),), True),
    ],
)
def test_whether_a_batch_starts_beside_others(
    policy: ConcurrencyPolicy, others: tuple[Child, ...], starts: bool
) -> None:
    assert started(view(*others, policy=policy), ONE) == [ONE] * starts


def test_forbidden_beside_another_is_told_and_started_when_that_one_is_finished() -> None:
    running = view(child("b1"), policy=FORBID)
    (told_of,) = decide(running, at(13, 20)).actions
    assert told_of == Tell(
        Matter.BATCH_ALREADY_ACTIVE, ONE, "no batch starts for 2026-11-21T13:00:00Z while b1 is not finished: Forbid"
    )
    finished = view(child("b1", Outcome.COMPLETE), policy=FORBID)
    assert started(finished, at(13, 40)) == [ONE]
    assert started(replace(finished, deadline=timedelta(minutes=30)), at(13, 40)) == []


def test_replacing_deletes_all_that_run_and_those_once_before_the_next_starts() -> None:
    others = (child("b1"), child("b2", age=90), child("b3", deleting=True), child("b4", Outcome.COMPLETE))
    actions = decide(view(*others, policy=REPLACE), ONE).actions
    assert removed(actions) == [("b2", Removal.REPLACED), ("b1", Removal.REPLACED)]
    assert actions[-1] == StartBatch(THIRTEEN, ONE)
    assert told(view(*others, policy=REPLACE), ONE) == [(Matter.BATCH_REPLACED, ONE)] * 2


@pytest.mark.parametrize("outcome", Outcome)
@pytest.mark.parametrize("policy", ConcurrencyPolicy)
def test_a_batch_that_status_does_not_tell_of_is_adopted_and_no_second_one_made(
    policy: ConcurrencyPolicy, outcome: Outcome
) -> None:
    assert decide(view(child(THIRTEEN, outcome), policy=policy), at(13, 0, 5)).actions == (AdoptBatch(ONE),)


@pytest.mark.parametrize(
    ("keep_complete", "keep_failed", "gone"),
    [
        (3, 1, ["c40", "f20"]),
        (4, 2, []),
        (0, 0, ["c40", "c30", "c20", "c10", "f20", "f10"]),
        (1, 5, ["c40", "c30", "c20"]),
    ],
)
def test_the_oldest_finished_ones_beyond_the_limits_are_deleted(
    keep_complete: int, keep_failed: int, gone: list[str]
) -> None:
    complete = [child(f"c{age}", Outcome.COMPLETE, age=age) for age in (10, 30, 20, 40)]
    failed = [child(f"f{age}", Outcome.FAILED, age=age) for age in (10, 20)]
    others = [child("running", age=999), child("going", Outcome.COMPLETE, age=999, deleting=True)]
    asked = view(*complete, *failed, *others, keep_complete=keep_complete, keep_failed=keep_failed)
    assert removed(decide(asked, at(12, 30)).actions) == [(name, Removal.HISTORY) for name in gone]


def test_a_batch_that_status_does_not_tell_of_is_kept_until_it_does() -> None:
    finished = view(child(THIRTEEN, Outcome.COMPLETE), keep_complete=0)
    assert decide(finished, at(13, 0, 5)).actions == (AdoptBatch(ONE),)
    assert decide(replace(finished, suspended=True), at(13, 0, 5)).actions == (AdoptBatch(ONE),)
    assert decide(replace(finished, suspended=True), at(12, 59, 59)).actions == (), "the clock was set back"
    assert decide(replace(finished, suspended=True, children=(child("nightly-x"),)), ONE).actions == ()
    assert removed(decide(replace(finished, last=ONE), at(13, 0, 5)).actions) == [(THIRTEEN, Removal.HISTORY)]


def test_the_batches_that_run_are_told_oldest_first_and_the_last_success() -> None:
    late = replace(child("c2", Outcome.COMPLETE), ended=at(12, 10))
    batches = (child("b1"), child("b2", age=90), child("c1", Outcome.COMPLETE), late, child("f1", Outcome.FAILED))
    assert [one.name for one in active(batches)] == ["b2", "b1"]
    assert last_success(batches) == at(12, 10)
    assert last_success((child("f1", Outcome.FAILED),)) is None


class Cluster:
    """A schedule and its batches over time; every create is written down."""

    def __init__(self, policy: ConcurrencyPolicy, deadline: timedelta | None, kept: int) -> None:
        self.policy, self.deadline, self.kept = policy, deadline, kept
        self.now, self.last = NOON, None if policy is ALLOW else NOON
        self.children: dict[str, Child] = {}
        self.created: list[tuple[str, datetime]] = []

    def step(self, minutes: int, *, ends: bool, dies_after: int | None) -> None:
        """Time passes, perhaps a batch ends, and a pass is made, perhaps by a process that dies before its status."""
        self.now += timedelta(minutes=minutes)
        running = active(tuple(self.children.values()))
        if ends and running:
            self.children[running[0].name] = replace(running[0], outcome=Outcome.COMPLETE, ended=self.now)
        actions = decide(self.view(), self.now).actions
        told = [told for action in actions[:dies_after] if (told := self.do(action)) is not None]
        if dies_after is None and told:
            self.last = told[-1]

    def view(self) -> View:
        known = view(*self.children.values(), schedule="*/7 * * * *", policy=self.policy, last=self.last)
        return replace(known, deadline=self.deadline, keep_complete=self.kept)

    def do(self, action: Action) -> datetime | None:
        """The time that status is to tell of."""
        match action:
            case StartBatch(name=name, scheduled=scheduled):
                self.created.append((name, scheduled))
                self.children[name] = Child(name, name, self.now, Outcome.ACTIVE)
                return scheduled
            case AdoptBatch(scheduled=scheduled):
                return scheduled
            case Remove(child=gone):
                del self.children[gone.name]
            case Tell():
                pass
        return None

    def finished_and_told(self) -> int:
        """Batches that the history limit is about."""
        since = int((self.last or NOON).timestamp()) // 60
        complete = [one for one in self.children.values() if one.outcome is Outcome.COMPLETE]
        return sum(int(one.name.rpartition("-")[2]) <= since for one in complete)


steps = st.lists(st.tuples(st.integers(0, 90), st.booleans(), st.none() | st.integers(0, 4)), max_size=40)


@given(
    policy=st.sampled_from(ConcurrencyPolicy),
    deadline=st.none() | st.timedeltas(timedelta(seconds=1), timedelta(hours=2)),
    kept=st.integers(0, 2),
    course=steps,
)
def test_whatever_happens_no_time_has_two_batches_and_the_policy_holds(
    policy: ConcurrencyPolicy, deadline: timedelta | None, kept: int, course: list[tuple[int, bool, int | None]]
) -> None:
    cluster = Cluster(policy, deadline, kept)
    for minutes, ends, dies_after in course:
        before = len(cluster.created)
        cluster.step(minutes, ends=ends, dies_after=dies_after)
        for _, scheduled in cluster.created[before:]:
            assert timedelta() <= cluster.now - scheduled < (deadline or timedelta(minutes=7))
        if policy is not ALLOW:
            assert len(active(tuple(cluster.children.values()))) <= 1
    for _ in range(2):
        cluster.step(0, ends=False, dies_after=None)
    assert cluster.finished_and_told() <= kept
    times = [scheduled for _, scheduled in cluster.created]
    assert times == sorted(set(times))
