"""Windows of time, each from a start to the next stop. Pure."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final

from relay_operator.timetables.cron import EVERY_DATE, BadScheduleError, Dates, dates, plain, times
from relay_operator.timetables.timetable import Timetable, timetable

_DAY: Final = timedelta(days=1)
_SECOND: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Windows:
    """A window is open from a start until the next stop; at a time of both it stays shut.

    A time skipped in spring counts when the clock jumps, and one shown twice counts once, so that no stop has to wait
    until the day after.
    """

    starts: Timetable
    stops: Timetable
    alone: Sequence[int]
    """The times of a day that start and do not stop, in minutes since midnight, sorted."""
    start_dates: Dates
    stop_dates: Dates

    def open(self, moment: datetime) -> bool:
        """Whether a window is open; before the first start none is."""
        start, stop = self.starts.once_until(moment), self.stops.once_until(moment)
        return start is not None and (stop is None or stop < start)

    def change(self, moment: datetime) -> datetime | None:
        """When the open window shuts, or the next one opens, in UTC; None if that never comes."""
        if self.open(moment):
            return self.stops.once_after(moment)
        start = self.starts.once_after(moment)
        while start is not None and not self.open(start):
            start = self.starts.once_after(self._shut_until(start))
        return start

    def _shut_until(self, start: datetime) -> datetime:
        """A moment up to which all stays shut, given that at `start` there is also a stop.

        On a date of both, no time of both opens a window.
        """
        wall = self.starts.wall(start)
        if not self.stop_dates.include(*_date(wall)):
            return start  # the stop is of the day before, whose end the clock skipped
        midnight = wall.replace(hour=0, minute=0)
        later = (midnight + timedelta(minutes=time) for time in self.alone)
        following = next((time for time in later if time > wall), None) or self._next_date(midnight)
        return self.starts.shown_once(following) - _SECOND

    def _next_date(self, midnight: datetime) -> datetime:
        """The next midnight that begins a date on which a window may open."""
        midnight += _DAY
        while not self.may_open(_date(midnight)):
            midnight += _DAY
        return midnight

    def may_open(self, date: tuple[int, int, int]) -> bool:
        """Whether a window may open on a date: day of the month, month and day of the week from Sunday."""
        return self.start_dates.include(*date) and (bool(self.alone) or not self.stop_dates.include(*date))


def _date(wall: datetime) -> tuple[int, int, int]:
    return wall.day, wall.month, wall.isoweekday() % 7


@lru_cache(maxsize=1024)  # hence the array: a thousand times of a day take 50 KiB as a tuple
def windows(start: str, stop: str, time_zone: str | None) -> Windows:
    """Parse the times, in UTC if no time zone is given. Raises BadScheduleError and UnknownTimeZoneError."""
    alone = array("H", sorted(times(start) - times(stop)))
    found = Windows(timetable(start, time_zone), timetable(stop, time_zone), alone, dates(start), dates(stop))
    if plain(start) == plain(stop):
        raise BadScheduleError(f"it would start and stop at the same times, {start!r}: make one of them another")
    if not any(map(found.may_open, EVERY_DATE)):
        raise BadScheduleError(f"it would never run: {stop!r} stops whatever {start!r} starts")
    return found
