"""Windows of time, each from a start to the next stop. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice

from relay_operator.timetables.cron import BadScheduleError, plain
from relay_operator.timetables.timetable import MANY, Timetable, timetable


@dataclass(frozen=True, slots=True)
class Windows:
    """A window is open from a start until the next stop; at a time of both it stays shut.

    A time skipped in spring counts when the clock jumps, and one shown twice counts once, so that no stop has to wait
    until the day after.
    """

    starts: Timetable
    stops: Timetable

    def open(self, moment: datetime) -> bool:
        """Whether a window is open; before the first start none is."""
        start, stop = self.starts.once_until(moment), self.stops.once_until(moment)
        return start is not None and (stop is None or stop < start)

    def change(self, moment: datetime) -> datetime | None:
        """When the open window shuts, or the next one opens, in UTC; None if that never comes."""
        if self.open(moment):
            return self.stops.once_after(moment)
        return next(filter(self.open, islice(self._starts(moment), MANY)), None)

    def _starts(self, moment: datetime) -> Iterator[datetime]:
        following = self.starts.once_after(moment)
        while following is not None:
            yield following
            following = self.starts.once_after(following)


@lru_cache(maxsize=1024)
def windows(start: str, stop: str, time_zone: str | None) -> Windows:
    """Parse the times, in UTC if no time zone is given. Raises BadScheduleError and UnknownTimeZoneError."""
    found = Windows(timetable(start, time_zone), timetable(stop, time_zone))
    if plain(start) == plain(stop):
        raise BadScheduleError(f"it would start and stop at the same times, {start!r}: make one of them another")
    if found.change(datetime(2000, 1, 1, tzinfo=UTC)) is None:
        raise BadScheduleError(f"it would never run: {stop!r} stops whatever {start!r} starts")
    return found
