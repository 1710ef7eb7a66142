"""Windows of time, each from a start to the next stop. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final

from relay_operator.timetables.cron import BadScheduleError, dates, plain, times
from relay_operator.timetables.timetable import Timetable, timetable

_MINUTES_OF_DAY: Final = 24 * 60


@dataclass(frozen=True, slots=True)
class Windows:
    """A window is open from a start until the next stop; at a time of both it stays shut.

    A time skipped in spring counts when the clock jumps, and one shown twice counts once, so that no stop has to wait
    until the day after.
    """

    starts: Timetable
    stops: Timetable
    alone: tuple[int, ...]
    """The times of a day that start and do not stop, in minutes since midnight, sorted."""

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
        """The minute before the next start of that day that may open a window, or before midnight.

        At `start`, there is also a stop, so that on this date all times of both stay shut.
        """
        minute = self.starts.minute_of_day(start)
        if minute is None:
            return start
        following = next((time for time in self.alone if time > minute), _MINUTES_OF_DAY)
        return start + timedelta(minutes=following - minute - 1)


@lru_cache(maxsize=1024)
def windows(start: str, stop: str, time_zone: str | None) -> Windows:
    """Parse the times, in UTC if no time zone is given. Raises BadScheduleError and UnknownTimeZoneError."""
    alone = times(start) - times(stop)
    found = Windows(timetable(start, time_zone), timetable(stop, time_zone), tuple(sorted(alone)))
    if plain(start) == plain(stop):
        raise BadScheduleError(f"it would start and stop at the same times, {start!r}: make one of them another")
    if not alone and dates(start) <= dates(stop):
        raise BadScheduleError(f"it would never run: {stop!r} stops whatever {start!r} starts")
    return found
