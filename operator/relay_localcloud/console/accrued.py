"""The exact usage of an organization at a series of instants, whatever the number of its runs."""

from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from sqlalchemy import ColumnElement, and_, case, func, or_, select

from relay_localcloud.kernel.instants import DAY, SECOND
from relay_localcloud.kernel.store import Tx
from relay_localcloud.money import days
from relay_localcloud.money.ledger import usage_records

MOST_RUNS: Final = 20_000
"""Up to this many runs, usage is computed at any instant; beyond that, only at midnights."""

_record = usage_records.c


@dataclass(frozen=True, slots=True)
class Grid:
    """Instants `step` microseconds apart, except the last: place 0 is `first`, place `count` is `last`."""

    first: int
    step: int
    count: int
    last: int

    @classmethod
    def between(cls, first: int, last: int, step: int) -> "Grid":
        """The grid from one instant to another, in steps of this length."""
        return cls(first, step, -(-(last - first) // step), last)

    @property
    def instants(self) -> list[int]:
        """The instants of all places."""
        return [min(self.first + place * self.step, self.last) for place in range(self.count + 1)]

    def place_of(self, instant: ColumnElement[int]) -> ColumnElement[int]:
        """The first place that is not before an instant, as a SQL expression."""
        return case((instant <= self.first, 0), else_=(instant - self.first + self.step - 1) // self.step)


def used(tx: Tx, organization_id: str, grid: Grid) -> tuple[Grid, list[int]]:
    """The places, and the units used from the first place up to each; for over MOST_RUNS runs, places are midnights."""
    within = or_(_record.ended_at.is_(None), _record.ended_at > grid.first)
    whose = and_(_record.organization_id == organization_id, within)
    some = select(_record.sequence).where(whose).limit(MOST_RUNS + 1).subquery()
    if tx.connection.execute(select(func.count()).select_from(some)).scalar_one() <= MOST_RUNS:
        return grid, _used_by(tx, whose, grid)
    by_day = Grid.between(grid.first - grid.first % DAY, grid.last, DAY)
    totals = list(days.totals(tx, organization_id, by_day.first, by_day.last))[: by_day.count]
    return by_day, list(accumulate((total.units for total in totals), initial=0))


def _used_by(tx: Tx, whose: ColumnElement[bool], grid: Grid) -> list[int]:
    """The units used up to each place: a start at `s` adds rate * (t - s) at `t`, and an end subtracts likewise."""
    rates, shares = [0] * (grid.count + 1), [0] * (grid.count + 1)
    for edge, sign, known in (
        (_record.started_at, 1, whose),
        (_record.ended_at, -1, and_(whose, _record.ended_at.is_not(None))),
    ):
        place = grid.place_of(edge)
        # Seconds and the rest are summed separately, since units can overflow SQLite's integers.
        share = func.sum(_record.rate_cents * (edge // SECOND)), func.sum(_record.rate_cents * (edge % SECOND))
        query = select(place, func.sum(_record.rate_cents), *share).where(known).group_by(place)
        for at, rate, in_seconds, rest in tx.connection.execute(query):
            if at <= grid.count:
                rates[at] += sign * rate
                shares[at] += sign * (in_seconds * SECOND + rest)
    running = zip(accumulate(rates), accumulate(shares), grid.instants, strict=True)
    units = [rate * instant - share for rate, share, instant in running]
    return [each - units[0] for each in units]
