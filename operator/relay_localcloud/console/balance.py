"""The available balance over time, from the ledger and the usage records, and its chart.

Every point is exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Final

from sqlalchemy import and_, func, select

from relay_localcloud.console.accrued import Grid, used
from relay_localcloud.console.wording import absolute, money
from relay_localcloud.kernel.instants import DAY, SECOND
from relay_localcloud.kernel.store import Tx
from relay_localcloud.money import accrual, billing
from relay_localcloud.money.ledger import transactions

POINTS: Final = 96
MOST_TRANSACTIONS: Final = 20_000
_TABLE_ENTRIES: Final = 12


@dataclass(frozen=True, slots=True)
class Point:
    """The available balance at an instant."""

    instant: int
    cents: int


def series(tx: Tx, organization_id: str, since: int, until: int) -> list[Point]:
    """Points from `since` to `until`, a whole number of seconds apart, except the last, which is at `until`.

    Computed backwards from the balance at `until`: adds what was used since, subtracts what was posted since. With more
    than MOST_TRANSACTIONS transactions, points begin at a later midnight; with very many runs, they are midnights.
    """
    since = max(since, min(_first_midnight(tx, organization_id), until))
    step = max(-(-(until - since) // (POINTS * SECOND)), 1) * SECOND
    grid, units = used(tx, organization_id, Grid.between(since, until, step))
    posted = _posted(tx, organization_id, grid)
    now = billing.account(tx, organization_id).available_cents
    return [
        Point(instant, now - (posted[-1] - by_then) + accrual.cents(units[-1] - ran))
        for instant, by_then, ran in zip(grid.instants, posted, units, strict=True)
    ]


def _first_midnight(tx: Tx, organization_id: str) -> int:
    """The midnight from which on every transaction is read; 0 if all are."""
    row = transactions.c
    query = select(row.created_at).where(row.organization_id == organization_id)
    query = query.order_by(row.sequence.desc()).limit(1).offset(MOST_TRANSACTIONS)
    return -(-(tx.connection.execute(query).scalar() or 0) // DAY) * DAY


def _posted(tx: Tx, organization_id: str, grid: Grid) -> list[int]:
    """The cents posted up to each place by the newest transactions, without settlements, which usage covers."""
    newest = select(transactions).where(transactions.c.organization_id == organization_id)
    row = newest.order_by(transactions.c.sequence.desc()).limit(MOST_TRANSACTIONS).subquery().c
    place = grid.place_of(row.created_at)
    is_settlement = and_(row.type == "usage", row.description.like("Usage of %"))
    query = select(place, func.sum(row.amount_cents)).where(~is_settlement).group_by(place)
    sums = [0] * (grid.count + 1)
    for at, cents in tx.connection.execute(query):
        if at <= grid.count:
            sums[at] += cents
    return list(accumulate(sums))


@dataclass(frozen=True)
class Chart:
    """A chart of the balance, and of the floor that it may reach."""

    points: Sequence[Point]
    floor_cents: int
    width: int = 960
    height: int = 240

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """The lowest and highest amount of the scale, which includes the floor if the balance comes near it."""
        amounts = [point.cents for point in self.points]
        lowest, highest = min(amounts), max(amounts)
        room = max((highest - lowest) // 10, 100)
        if lowest - self.floor_cents < 3 * (highest - lowest) + room:
            lowest = min(lowest, self.floor_cents)
        return lowest - room, highest + room

    @property
    def line(self) -> str:
        """The points as an SVG polyline."""
        first, last = self.points[0].instant, self.points[-1].instant
        if first == last:
            level = self.y(self.points[-1].cents)
            return f"0,{level} {self.width},{level}"
        places = ((self.width * (point.instant - first) / (last - first), self.y(point.cents)) for point in self.points)
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)

    def y(self, cents: int) -> float:
        """The distance of an amount from the top."""
        lowest, highest = self.bounds
        return self.height * (highest - cents) / (highest - lowest)

    @property
    def words(self) -> str:
        """What the chart shows, in a sentence."""
        (first, at_first), (last, at_last) = ((absolute(p.instant), money(p.cents)) for p in self.ends)
        return f"Available balance from {first}, {at_first}, to {last}, {at_last}."

    @property
    def ends(self) -> tuple[Point, Point]:
        """The first and the last point."""
        return self.points[0], self.points[-1]

    @property
    def listed(self) -> Sequence[Point]:
        """Some of the points, the newest first, for a table."""
        return self.points[::-1][:: max(len(self.points) // _TABLE_ENTRIES, 1)]
