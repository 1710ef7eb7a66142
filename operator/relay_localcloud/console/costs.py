"""The page of costs: what the usage of each day came to, the largest workloads apart, as bars."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

from sqlalchemy import and_, func, or_, select

from relay_localcloud.console.accrued import Grid, units_used
from relay_localcloud.console.reading import Reading
from relay_localcloud.console.wording import absolute, money
from relay_localcloud.identity import organizations
from relay_localcloud.kernel.instants import DAY, SECOND
from relay_localcloud.kernel.store import Tx
from relay_localcloud.money import accrual
from relay_localcloud.money.ledger import usage_records

_SPANS: Final[Mapping[str | None, tuple[str, int]]] = {
    None: ("14 days", 14),
    "week": ("7 days", 7),
    "month": ("30 days", 30),
}
_APART: Final = 5
"""How many workloads have a colour of their own."""


@dataclass(frozen=True)
class Series:
    """What a workload, or all the others together (`id` None), came to on each day."""

    id: str | None
    name: str
    colour: str  # the class of its bars
    cents: Sequence[int]

    @property
    def total(self) -> int:
        """All days together."""
        return sum(self.cents)


@dataclass(frozen=True)
class Bars:
    """A bar for each day, each workload's part on those before it."""

    days: Sequence[str]
    series: Sequence[Series]
    width: int = 960
    height: int = 240

    @property
    def totals(self) -> Sequence[int]:
        """Of each day."""
        return [sum(of_day) for of_day in zip(*(each.cents for each in self.series), strict=True)]

    @property
    def highest(self) -> int:
        """The top of the scale, in cents."""
        return max([*self.totals, 100])

    @property
    def parts(self) -> list[tuple[Series, float, float, float, float]]:
        """Of each part that is there: whose it is, x, y, width and height."""
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
        """Each day with its parts, the newest first, to be read as a table."""
        parts = [[(each.name, each.cents[day]) for each in self.series] for day in range(len(self.days))]
        rows = zip(self.days, parts, self.totals, strict=True)
        return [{"day": day, "parts": of_day, "total": total} for day, of_day, total in rows][::-1]

    @property
    def words(self) -> str:
        """What they show."""
        dearest = max(range(len(self.days)), key=lambda day: self.totals[day])
        said = f"Cost by day from {self.days[0]} to {self.days[-1]}: {money(sum(self.totals))} in all"
        return f"{said}, the most on {self.days[dearest]}, {money(self.totals[dearest])}."


def content(reading: Reading) -> dict[str, object]:
    """The last days up to today, in UTC, of the organization that was chosen, else of the first one."""
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
    """What `days` days up to now came to, today included."""
    record = usage_records.c
    ours = record.organization_id == organization_id
    first = max(tx.now - tx.now % DAY - (days - 1) * DAY, 0)
    grid = Grid(first, DAY, (tx.now - first) // DAY + 1, tx.now)
    largest = _largest(tx, organization_id, first)
    apart = [units_used(tx, and_(ours, record.resource_id == resource_id), grid) for resource_id, _ in largest]
    whole = units_used(tx, ours, grid)
    shares = [_shares([each[day : day + 2] for each in apart], whole[day : day + 2]) for day in range(grid.count)]
    *named, others = zip(*shares, strict=True)
    series = [
        Series(resource_id, name, f"colour-{place}", cents)
        for place, ((resource_id, name), cents) in enumerate(zip(largest, named, strict=True))
    ]
    rest = [Series(None, "all others", "rest", others)] if any(others) else []
    return Bars([absolute(grid.instant(day))[:10] for day in range(grid.count)], [*series, *rest])


def _shares(apart: Sequence[Sequence[int]], whole: Sequence[int]) -> list[int]:
    """What each has of a day, and the others have, in cents that add up to those of the whole day.

    Given are the units used before the day and by its end.
    """
    before, after = whole
    marks = [*accumulate((end - start for start, end in apart), initial=before), after]
    return [accrual.cents(end) - accrual.cents(start) for start, end in pairwise(marks)]


def _largest(tx: Tx, organization_id: str, since: int) -> Sequence[tuple[str, str]]:
    """The ids and names of the workloads that cost most since then."""
    record = usage_records.c
    ran = func.coalesce(record.ended_at, tx.now) - func.max(record.started_at, since)
    query = select(record.resource_id, func.min(record.name)).where(
        record.organization_id == organization_id, or_(record.ended_at.is_(None), record.ended_at > since)
    )
    dearest = func.sum(ran // SECOND * record.rate_cents).desc()
    query = query.group_by(record.resource_id).order_by(dearest, record.resource_id).limit(_APART)
    return [(row[0], row[1]) for row in tx.connection.execute(query)]
