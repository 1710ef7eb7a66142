"""The five fields of a schedule, parsed by the rules of Kubernetes' CronJob. Pure.

Wider dialects (a seventh day for Sunday, `L`, `W`, `#`, seconds, ranges that wrap) are refused, since CronJob gives
them another meaning, or none.
"""

import re
from calendar import monthrange
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


class BadScheduleError(ValueError):
    """The schedule is malformed; the message says which part, and what is allowed."""


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    low: int
    high: int
    words: tuple[str, ...] = ()
    """Names of the values, starting with `low`."""

    def number(self, text: str) -> int:
        word = text.lower()
        if word in self.words:
            return self.words.index(word) + self.low
        if not re.fullmatch(r"[0-9]{1,4}", text):
            raise BadScheduleError(f"{self.name}: {text or 'an empty part'!r} is not a number{self._or_name()}")
        value = int(text)
        if not self.low <= value <= self.high:
            raise BadScheduleError(f"{self.name}: {value} is not from {self.low} to {self.high}")
        return value

    def _or_name(self) -> str:
        return f", nor one of {', '.join(self.words)}" if self.words else ""


_FIELDS: Final = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")),
    _Field("day of the week", 0, 6, ("sun", "mon", "tue", "wed", "thu", "fri", "sat")),
)
MACROS: Final[Mapping[str, str]] = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_LEAP_YEAR: Final = 2000
EVERY_DATE: Final = tuple(
    (day, month, weekday)
    for month in range(1, 13)
    for day in range(1, monthrange(_LEAP_YEAR, month)[1] + 1)
    for weekday in range(7)
)
"""Each date that some year has, as day of the month, month and day of the week from Sunday."""
_ANY: Final = re.compile(r"[*?](/0*1)?")
"""A part that restricts nothing."""


def plain(schedule: str) -> str:
    """The schedule with every field as `*` or as sorted numbers. Raises BadScheduleError.

    If days of the month or days of the week are `*`, a date must match both, otherwise either; a step of more than 1
    counts as a restriction.
    """
    if "TZ" in schedule:
        raise BadScheduleError("TZ and CRON_TZ are not allowed in a schedule: set timeZone")
    text = schedule.strip()
    if text.startswith("@"):
        if text not in MACROS:
            raise BadScheduleError(f"{text!r} is not one of {', '.join(MACROS)}: write five fields")
        return MACROS[text]
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise BadScheduleError(
            f"a schedule has five fields (minute, hour, day of the month, month, day of the week), not {len(fields)}"
        )
    return " ".join(_plain(field, value) for field, value in zip(_FIELDS, fields, strict=True))


def times(schedule: str) -> frozenset[int]:
    """The times of a day at which a schedule is due, in minutes since midnight. Raises BadScheduleError."""
    minutes, hours, *_ = _all_values(schedule)
    return frozenset(60 * hour + minute for hour in hours for minute in minutes)


@dataclass(frozen=True, slots=True)
class Dates:
    """The dates on which a schedule is due."""

    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    both: bool
    """Whether a date must match both days and weekdays, or either."""

    def include(self, day: int, month: int, weekday: int) -> bool:
        found = (day in self.days, weekday in self.weekdays)
        return month in self.months and (all(found) if self.both else any(found))


def dates(schedule: str) -> Dates:
    """The dates of a schedule. Raises BadScheduleError."""
    _, _, days, months, weekdays = _all_values(schedule)
    _, _, day_text, _, weekday_text = plain(schedule).split()
    return Dates(days, months, weekdays, both="*" in (day_text, weekday_text))


def _all_values(schedule: str) -> list[frozenset[int]]:
    fields = zip(_FIELDS, plain(schedule).split(), strict=True)
    return [frozenset(value for part in text.split(",") for value in _values(field, part)) for field, text in fields]


def _plain(field: _Field, text: str) -> str:
    parts = text.split(",")
    values = {value for part in parts for value in _values(field, part)}
    return "*" if any(map(_ANY.fullmatch, parts)) else ",".join(map(str, sorted(values)))


def _values(field: _Field, part: str) -> range:
    """The values of one part of a list: `*`, `n` or `n-m`, each with or without a step; `n/s` runs to the end."""
    span, slash, step_text = part.partition("/")
    low_text, dash, high_text = span.partition("-")
    if span in {"*", "?"}:
        low, high = field.low, field.high
    else:
        low = field.number(low_text)
        high = field.number(high_text) if dash else (field.high if slash else low)
    if low > high:
        raise BadScheduleError(f"{field.name}: {span} begins after its end; write the two parts with a comma between")
    step = _step(field, part, step_text) if slash else 1
    return range(low, high + 1, step)


def _step(field: _Field, part: str, text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,4}", text) or int(text) == 0:
        raise BadScheduleError(f"{field.name}: the step of {part!r} is not a number from 1")
    return int(text)
