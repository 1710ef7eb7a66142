"""What a pass over a schedule does, by the rules of CronJob. Pure: the time is an argument."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TypeAlias

from relay_operator.api.inferencebatchschedule import ConcurrencyPolicy
from relay_operator.api.meta import rfc3339
from relay_operator.timetables.timetable import MANY, Missed, Timetable

_STEP = timedelta(minutes=1)
"""By how much a clock may step back unnoticed: no time comes twice within it."""


class Outcome(StrEnum):
    """The state of a batch."""

    ACTIVE = "Active"
    COMPLETE = "Complete"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class Child:
    """A batch that the schedule controls."""

    name: str
    uid: str
    created: datetime
    outcome: Outcome
    deleting: bool = False
    """Whether it is being cancelled; it may cost money until that is done."""
    ended: datetime | None = None


@dataclass(frozen=True, slots=True)
class View:
    """Everything that a decision depends on, except the time."""

    name: str
    timetable: Timetable | None
    """None if the schedule or its time zone is invalid."""
    created: datetime
    last: datetime | None
    """The latest time for which a batch was started."""
    children: tuple[Child, ...] = ()
    policy: ConcurrencyPolicy = ConcurrencyPolicy.ALLOW
    deadline: timedelta | None = None
    suspended: bool = False
    paused: bool = False
    deleting: bool = False
    keep_complete: int = 3
    keep_failed: int = 1


class Removal(StrEnum):
    """Why a batch is deleted."""

    REPLACED = "Replaced"
    HISTORY = "History"


class Matter(StrEnum):
    """What people are told about, as the reason of an Event."""

    BATCH_ALREADY_ACTIVE = "BatchAlreadyActive"
    BATCH_REPLACED = "BatchReplaced"
    BATCH_NAME_TAKEN = "BatchNameTaken"
    HISTORY_STAYS = "HistoryStays"
    MISSED_SCHEDULE = "MissedSchedule"
    TOO_MANY_MISSED_TIMES = "TooManyMissedTimes"


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete a batch; an unfinished one is thereby cancelled."""

    child: Child
    why: Removal


@dataclass(frozen=True, slots=True)
class StartBatch:
    """Create the batch of this time."""

    name: str
    scheduled: datetime


@dataclass(frozen=True, slots=True)
class AdoptBatch:
    """Record that the batch of this time exists, since the process that created it ended before it wrote the status."""

    scheduled: datetime


@dataclass(frozen=True, slots=True)
class CountFrom:
    """Record this as the last time in place of one that is still to come: the clock was ahead when that was written."""

    moment: datetime


@dataclass(frozen=True, slots=True)
class Tell:
    """Tell people once what was decided about a time."""

    matter: Matter
    scheduled: datetime
    text: str


Action: TypeAlias = Remove | StartBatch | AdoptBatch | CountFrom | Tell


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do, in order, and when the next time comes."""

    actions: tuple[Action, ...] = ()
    next: datetime | None = None
    """The next time of the schedule; None while no batch may start."""


def decide(view: View, now: datetime) -> Decision:
    """Decide one pass: remove old batches, then start the batch of the latest time that is not handled yet."""
    if view.paused or view.deleting:
        return Decision()
    cleared = tuple(_beyond_limits(view))
    if view.suspended or view.timetable is None:
        return Decision((*cleared, *_started(view, now)))
    since = _since(view)
    if view.last is not None and view.last - now > _STEP:
        return Decision((*cleared, CountFrom(now.replace(microsecond=0))), view.timetable.after(now))
    return Decision((*cleared, *_due(view, view.timetable, now)), view.timetable.after(max(now, since)))


def batch_name(schedule: str, scheduled: datetime) -> str:
    """One name per time, so that a second attempt to start its batch finds the first."""
    return f"{schedule}-{int(scheduled.timestamp()) // 60}"


def active(children: Sequence[Child]) -> tuple[Child, ...]:
    """Unfinished batches, the oldest first."""
    return tuple(child for child in _by_age(children) if child.outcome is Outcome.ACTIVE)


def last_success(children: Sequence[Child]) -> datetime | None:
    """When the last Complete batch ended."""
    ends = (child.ended for child in children if child.outcome is Outcome.COMPLETE)
    return max((end for end in ends if end is not None), default=None)


def _since(view: View) -> datetime:
    return view.created if view.last is None else view.last


def _due(view: View, timetable: Timetable, now: datetime) -> Iterator[Action]:
    since = _since(view)
    begin = since if view.deadline is None else max(since, now - view.deadline)
    if (missed := timetable.missed(begin, now)) is not None:
        yield from _start(view, missed)
        return
    if (late := timetable.missed(since, begin)) is not None:
        limit = (now - begin).total_seconds()
        text = f"nothing was started for {rfc3339(late.latest)}: it was missed by more than {limit:.0f} s"
        yield Tell(Matter.MISSED_SCHEDULE, late.latest, text)


def _start(view: View, missed: Missed) -> Iterator[Action]:
    """Start only the batch of the latest time, however many times were missed."""
    name, scheduled = batch_name(view.name, missed.latest), missed.latest
    running = active(view.children)
    if any(child.name == name for child in view.children):
        yield AdoptBatch(scheduled)
        return
    if running and view.policy is ConcurrencyPolicy.FORBID:
        text = f"no batch starts for {rfc3339(scheduled)} while {running[0].name} is not finished: Forbid"
        yield Tell(Matter.BATCH_ALREADY_ACTIVE, scheduled, text)
        return
    if missed.many:
        text = f"more than {MANY} times were missed, and only the latest counts: set or lower startingDeadlineSeconds"
        yield Tell(Matter.TOO_MANY_MISSED_TIMES, scheduled, text)
    if view.policy is ConcurrencyPolicy.REPLACE:
        yield from _replace(running, scheduled)
    yield StartBatch(name, scheduled)


def _replace(running: Sequence[Child], scheduled: datetime) -> Iterator[Action]:
    for child in running:
        if not child.deleting:
            text = f"{child.name} is not finished and is deleted for that of {rfc3339(scheduled)}: Replace"
            yield Tell(Matter.BATCH_REPLACED, scheduled, text)
            yield Remove(child, Removal.REPLACED)


def _beyond_limits(view: View) -> Iterator[Remove]:
    for outcome, kept in ((Outcome.COMPLETE, view.keep_complete), (Outcome.FAILED, view.keep_failed)):
        finished = [child for child in _by_age(view.children) if child.outcome is outcome and not child.deleting]
        for child in finished[: max(len(finished) - kept, 0)]:
            if _is_told(child, view):
                yield Remove(child, Removal.HISTORY)


def _started(view: View, now: datetime) -> Iterator[AdoptBatch]:
    """Record the latest batch that the status does not cover: it may be gone before the next time comes."""
    untold = [_minute(child, view) for child in view.children if not _is_told(child, view)]
    if passed := [minute for minute in untold if minute <= now.timestamp() // 60]:
        yield AdoptBatch(datetime.fromtimestamp(max(passed) * 60, UTC))


def _is_told(child: Child, view: View) -> bool:
    """Whether the status covers this batch's time; until then the batch is the only proof that the time was handled."""
    return _minute(child, view) <= int(_since(view).timestamp()) // 60


def _minute(child: Child, view: View) -> int:
    """The time in the batch's name, in minutes since 1970; -1 if its name has none."""
    minute = child.name.removeprefix(f"{view.name}-")
    return int(minute) if minute.isdecimal() else -1


def _by_age(children: Sequence[Child]) -> list[Child]:
    return sorted(children, key=lambda child: (child.created, child.name))
