"""Views as tests write them: hourly, without a batch, since noon."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from relay_operator.flows.schedule.decide import Child, Outcome, View
from relay_operator.timetables.timetable import timetable

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
HOURLY = View(name="nightly", timetable=timetable("0 * * * *", None), created=NOON, last=None)


def at(hour: int, minute: int = 0, second: int = 0) -> datetime:
    """A moment of that day."""
    return NOON.replace(hour=hour, minute=minute, second=second)


def view(*children: Child, schedule: str = "0 * * * *", deadline: int | None = None, **fields: object) -> View:
    """The hourly view with other fields; `deadline` in seconds."""
    seconds = None if deadline is None else timedelta(seconds=deadline)
    told = replace(HOURLY, timetable=timetable(schedule, None), children=children, deadline=seconds)
    return replace(told, **fields)  # type: ignore[arg-type]


def child(name: str, outcome: Outcome = Outcome.ACTIVE, *, age: int = 60, deleting: bool = False) -> Child:
    """A batch that is so many minutes old, and ended just now where it is finished."""
    ended = None if outcome is Outcome.ACTIVE else NOON
    return Child(name, f"uid-of-{name}", NOON - timedelta(minutes=age), outcome, deleting, ended)
