"""When a workload should run, by `lifetime.schedule`. Pure."""

from datetime import datetime

from relay_operator.api.meta import rfc3339
from relay_operator.api.parts import PowerState
from relay_operator.api.workload import ManagedSpec
from relay_operator.flows.managed.view import Gate, Seen
from relay_operator.flows.managed.workload import asked
from relay_operator.timetables.cron import BadScheduleError
from relay_operator.timetables.timetable import UnknownTimeZoneError
from relay_operator.timetables.windows import Windows, windows

_NOT_CREATED = frozenset({Seen.NOTHING, Seen.UNKNOWABLE})


def _read(spec: ManagedSpec) -> Windows | str | None:
    """The windows, or why they are unreadable; None if it may always run."""
    lifetime = asked(spec).lifetime
    schedule = None if lifetime is None else lifetime.schedule
    if schedule is None:
        return None
    try:
        return windows(schedule.start, schedule.stop, schedule.time_zone)
    except (BadScheduleError, UnknownTimeZoneError) as problem:
        return f"spec.lifetime.schedule: {problem}"


def resting(spec: ManagedSpec, now: datetime) -> bool:
    """Whether the schedule does not let it run now; an unreadable schedule stops nothing."""
    found = _read(spec)
    return isinstance(found, Windows) and not found.open(now)


def next_change(spec: ManagedSpec, now: datetime) -> datetime | None:
    """When the schedule starts or stops it next; None if it does not, or if it is to be stopped anyway."""
    found = _read(spec)
    if not isinstance(found, Windows) or asked(spec).power_state is not PowerState.RUNNING:
        return None
    return found.change(now)


def gate(spec: ManagedSpec, seen: Seen, now: datetime) -> tuple[Gate, str] | None:
    """The gate that the schedule closes, with a message; None if it closes none."""
    found = _read(spec)
    if isinstance(found, str):
        return Gate.UNSCHEDULED, found
    if found is None or seen not in _NOT_CREATED or found.open(now):
        return None
    return Gate.RESTING, f"not created before its schedule lets it run{until(spec, now)}"


def until(spec: ManagedSpec, now: datetime) -> str:
    """The end of a message about a resting workload: from when it may run; empty if that is unknown."""
    change = next_change(spec, now)
    return "" if change is None else f", which is from {rfc3339(change)} on"
