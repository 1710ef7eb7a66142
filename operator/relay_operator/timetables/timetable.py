"""The moments of a schedule in a time zone. Pure.

A moment is due when the zone's clock shows a time of the schedule. A time that the clock skips in spring does not
occur, and one that it shows twice in autumn occurs twice, as with CronJob.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import Final
from zoneinfo import ZoneInfo

from croniter import CroniterBadDateError, croniter  # type: ignore[import-untyped]

from relay_operator.timetables.cron import BadScheduleError, plain

MANY: Final = 100
"""Above this number of missed times, the status tells people to check their schedule, as with CronJob."""
_YEARS: Final = 8
"""The longest wait for a date that exists: 29 February, around the year 2100."""
_EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST: Final = datetime(9900, 1, 1, tzinfo=UTC)
"""Beyond these moments nothing is due: somebody wrote them, and at both ends of the calendar no arithmetic works."""
_MINUTE: Final = timedelta(minutes=1)
_DAY: Final = timedelta(days=1)


class UnknownTimeZoneError(ValueError):
    """The time zone does not exist."""


@dataclass(frozen=True, slots=True)
class Missed:
    """Times of the schedule that have passed."""

    latest: datetime
    many: bool
    """Whether there are more than `MANY`."""


@dataclass(frozen=True, slots=True)
class Timetable:
    """When a schedule is due."""

    _walls: croniter
    """Finds dates on a calendar without zones; keeps no state that matters between calls."""
    _zone: ZoneInfo

    def after(self, moment: datetime) -> datetime | None:
        """The first moment after this one, in UTC; None if no such date comes."""
        if moment > _LATEST:
            return None
        moment = max(moment, _EARLIEST)
        local = moment.astimezone(self._zone)
        begin = local.replace(tzinfo=None, fold=0)
        regular = self._first(begin, moment)
        ahead = _repeated(local)
        if not ahead:
            return regular
        again = self._first(begin - ahead, moment)
        return min((found for found in (regular, again) if found is not None), default=None)

    def once_after(self, moment: datetime) -> datetime | None:
        """The first moment after this one, if each time of a day counts once.

        A time skipped in spring counts when the clock jumps; one shown twice in autumn counts the first time.
        """
        if moment > _LATEST:
            return None
        moment = max(moment, _EARLIEST)
        later = map(self.shown_once, _steps(self._walls.get_next, self.wall(moment) - self._leap(moment)))
        return next((found for found in later if found > moment), None)

    def once_until(self, moment: datetime) -> datetime | None:
        """The last moment not after this one, counted the same way; None if there is none."""
        if moment < _EARLIEST:
            return None
        moment = min(moment, _LATEST)
        begin = self.wall(moment) + self._leap(moment) + _MINUTE
        earlier = map(self.shown_once, _steps(self._walls.get_prev, begin))
        return next((found for found in earlier if found <= moment), None)

    def wall(self, moment: datetime) -> datetime:
        """The date and time that the zone's clock shows."""
        return moment.astimezone(self._zone).replace(tzinfo=None, fold=0)

    def shown_once(self, wall: datetime) -> datetime:
        """When the zone's clock first shows this time, or jumps over it."""
        first, second = (wall.replace(tzinfo=self._zone, fold=fold).astimezone(UTC) for fold in (0, 1))
        if first <= second:
            return first
        low, high = second, first
        while high - low > timedelta(seconds=1):
            middle = (low + (high - low) / 2).replace(microsecond=0)
            skipped = self.wall(middle) > wall
            low, high = (low, middle) if skipped else (middle, high)
        return high

    def missed(self, since: datetime, until: datetime) -> Missed | None:
        """The moments after `since` and not after `until`; None if there are none."""
        times = list(islice(self._between(since, until), MANY + 1))
        if not times:
            return None
        if len(times) <= MANY:
            return Missed(times[-1], many=False)
        return Missed(self._latest(times[-1], until), many=True)

    def _between(self, since: datetime, until: datetime) -> Iterator[datetime]:
        following = self.after(since)
        while following is not None and following <= until:
            yield following
            following = self.after(following)

    def _latest(self, known: datetime, until: datetime) -> datetime:
        """The last moment not after `until`, by bisection: years of minutes may lie between."""
        low, high = known, until
        while high - low > _MINUTE:
            middle = low + (high - low) / 2
            following = self.after(middle)
            if following is not None and following <= until:
                low = following
            else:
                high = middle
        return max(self._between(low, until), default=low)

    def _first(self, begin: datetime, moment: datetime) -> datetime | None:
        """The first moment after `moment` at which the clock shows a time of the schedule after `begin`."""
        for wall in _steps(self._walls.get_next, begin):
            if shown := [found for found in self._shown(wall) if found > moment]:
                return min(shown)
        return None

    def _leap(self, moment: datetime) -> timedelta:
        """By how much the clock is changed within a day of the moment."""
        return abs(self.wall(moment + _DAY) - self.wall(moment - _DAY) - 2 * _DAY)

    def _shown(self, wall: datetime) -> Iterator[datetime]:
        """When the zone's clock shows this time: once, twice or never."""
        for fold in (0, 1):
            found = wall.replace(tzinfo=self._zone, fold=fold).astimezone(UTC)
            if found.astimezone(self._zone).replace(tzinfo=None, fold=0) == wall:
                yield found


def _steps(step: Callable[..., datetime], begin: datetime) -> Iterator[datetime]:
    """The clock's times of a schedule, before or after `begin` as croniter's `step` has it, for `_YEARS`."""
    wall = begin
    with suppress(CroniterBadDateError):
        while abs(wall.year - begin.year) <= _YEARS:
            wall = step(datetime, start_time=wall)
            yield wall


def _repeated(local: datetime) -> timedelta:
    """By how much the clock is about to be set back over the time it shows; zero if it is not."""
    first, second = local.replace(fold=0).utcoffset(), local.replace(fold=1).utcoffset()
    if local.fold or first is None or second is None:
        return timedelta()
    return max(first - second, timedelta())


@lru_cache(maxsize=1024)
def timetable(schedule: str, time_zone: str | None) -> Timetable:
    """Parse a schedule, in UTC if no time zone is given. Raises BadScheduleError and UnknownTimeZoneError."""
    zone = zone_of(time_zone)
    walls = croniter(plain(schedule), datetime(2000, 1, 1), max_years_between_matches=_YEARS)  # noqa: DTZ001 - no zone
    found = Timetable(walls, zone)
    if found.after(datetime(2000, 1, 1, tzinfo=UTC)) is None:
        raise BadScheduleError(f"no year has a date like {schedule!r}")
    return found


def zone_of(name: str | None) -> ZoneInfo:
    """The named time zone, UTC for None. Raises UnknownTimeZoneError."""
    if name is None:
        return ZoneInfo("UTC")
    problem = f"there is no time zone {name!r}: use a name of the IANA list, such as Europe/Berlin or UTC"
    if name.lower() in {"local", "localtime"}:  # the machine's own zone may differ between replicas
        raise UnknownTimeZoneError(problem)
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):  # unknown, not a name at all, or a folder of names
        raise UnknownTimeZoneError(problem) from None
