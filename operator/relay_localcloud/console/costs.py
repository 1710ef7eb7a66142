"""The page of costs: each day's usage as a bar, with the most expensive workloads in their own colours."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

from relay_localcloud.console.reading import Reading
from relay_localcloud.console.wording import absolute, money
from relay_localcloud.identity import organizations
from relay_localcloud.kernel.instants import DAY
from relay_localcloud.kernel.store import Tx
from relay_localcloud.money import accrual, usage
from relay_localcloud.money.ledger import UsageRecord
from relay_localcloud.money.usage import Day

_SPANS: Final[Mapping[str | None, tuple[str, int]]] = {
    None: ("14 days", 14),
    "week": ("7 days", 7),
    "month": ("30 days", 30),
}
_APART: Final = 5
"""How many workloads have their own colours."""


@dataclass(frozen=True)
class Series:
    """The cost by day of a workload, or of all others together (`id` None)."""

    id: str | None
    name: str
    colour: str  # the CSS class of its bars
    cents: Sequence[int]

    @property
    def total(self) -> int:
        """Cents for all days."""
        return sum(self.cents)


@dataclass(frozen=True)
class Bars:
    """A bar for each day, with the workloads' parts stacked."""

    days: Sequence[str]
    series: Sequence[Series]
    width: int = 960
    height: int = 240

    @property
    def totals(self) -> Sequence[int]:
        """Cents for each day."""
        return [sum(of_day) for of_day in zip(*(each.cents for each in self.series), strict=True)]

    @property
    def highest(self) -> int:
        """The top of the scale, in cents."""
        return max([*self.totals, 100])

    @property
    def parts(self) -> list[tuple[Series, float, float, float, float]]:
        """The series, x, y, width and height of each part that is not empty."""
        step = self.width / len(self.days)
        tops, found = [0] * len(self.days), []
        for each in self.series:
            for day, cents in enumerate(each.cents):
                tops[day] += cents
                y, tall = self.height * (1 - tops[day] / self.highest), self.height * cents / self.highest
                if cents:
                    found.append((each, step * (day + 0.15), y, step * 0.7, tall))
        return found

    @property
    def listed(self) -> list[dict[str, object]]:
        """Each day with its parts, the newest first, for a table."""
        parts = [[(each.name, each.cents[day]) for each in self.series] for day in range(len(self.days))]
        rows = zip(self.days, parts, self.totals, strict=True)
        return [{"day": day, "parts": of_day, "total": total} for day, of_day, total in rows][::-1]

    @property
    def words(self) -> str:
        """What the bars show, in a sentence."""
        dearest = max(range(len(self.days)), key=lambda day: self.totals[day])
        said = f"Cost by day from {self.days[0]} to {self.days[-1]}: {money(sum(self.totals))} in all"
        return f"{said}, the most on {self.days[dearest]}, {money(self.totals[dearest])}."


def content(reading: Reading) -> dict[str, object]:
    """The last days up to today, in UTC, of the selected organization, else of the first one."""
    tx, organization_id = reading.tx, reading.organization_id
    asked = reading.requested.word("span")
    chosen = asked if asked in _SPANS else None
    return {
        "organization_id": organization_id,
        "whose": organizations.name_of(tx, organization_id),
        "chosen": chosen,
        "spans": {word: label for word, (label, _) in _SPANS.items()},
        "bars": bars(tx, organization_id, _SPANS[chosen][1]),
    }


def bars(tx: Tx, organization_id: str, days: int) -> Bars:
    """The costs of the last `days` days, including today; the largest are found among the runs of `usage.latest`."""
    shown = usage.by_day(tx, organization_id, days, tx.now)
    runs = [_Run.of(record, shown[0].start, tx.now) for record in usage.latest(tx, organization_id, shown[0].start)]
    largest = _largest(runs)
    apart = [_units(shown, [run for run in runs if run.resource_id == resource_id]) for resource_id, _ in largest]
    shares = [_shares(day, [units[place] for units in apart]) for place, day in enumerate(shown)]
    *named, others = zip(*shares, strict=True)
    series = [
        Series(resource_id, name, f"colour-{place}", cents)
        for place, ((resource_id, name), cents) in enumerate(zip(largest, named, strict=True))
    ]
    rest = [Series(None, "all others", "rest", others)] if any(others) else []
    return Bars([absolute(day.start)[:10] for day in shown], [*series, *rest])


@dataclass(frozen=True, slots=True)
class _Run:
    """A run, cut to the days that are shown."""

    resource_id: str
    name: str
    rate_cents: int
    begun: int
    ended: int

    @classmethod
    def of(cls, record: UsageRecord, since: int, until: int) -> "_Run":
        ended = until if record.ended_at is None else record.ended_at
        return cls(record.resource_id, record.name, record.rate_cents, max(record.started_at, since), ended)


def _largest(runs: Sequence[_Run]) -> Sequence[tuple[str, str]]:
    """The ids and names of the most expensive workloads."""
    spent, names = Counter[str](), dict[str, str]()
    for run in runs:
        spent[run.resource_id] += (run.ended - run.begun) * run.rate_cents
        names[run.resource_id] = min(names.get(run.resource_id, run.name), run.name)
    dearest = sorted(spent, key=lambda resource_id: (-spent[resource_id], resource_id))
    return [(resource_id, names[resource_id]) for resource_id in dearest[:_APART]]


def _units(days: Sequence[Day], runs: Sequence[_Run]) -> list[int]:
    """The units that runs used on each day."""
    units, first = [0] * len(days), days[0].start
    for run in runs:
        for place in range((run.begun - first) // DAY, min((run.ended - first) // DAY + 1, len(days))):
            start = days[place].start
            units[place] += (min(run.ended, start + DAY) - max(run.begun, start)) * run.rate_cents
    return units


def _shares(day: Day, apart: Sequence[int]) -> list[int]:
    """The cents of each workload and of all others on a day, which add up to the cents of the day."""
    marks = [*accumulate(apart, initial=day.units_before), day.units_before + day.total.units]
    return [accrual.cents(end) - accrual.cents(start) for start, end in pairwise(marks)]
