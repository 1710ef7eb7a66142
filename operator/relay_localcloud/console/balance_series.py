"""The available balance over time, from the ledger and the usage records; exact at every point."""

from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from sqlalchemy import ColumnElement, and_, case, func, select

from relay_localcloud.kernel.store import Tx
from relay_localcloud.money import accrual, billing
from relay_localcloud.money.ledger import transactions, usage_records

POINTS: Final = 96


@dataclass(frozen=True, slots=True)
class Point:
    """What was available at a second."""

    second: int
    cents: int


def series(tx: Tx, organization_id: str, since: int, until: int) -> list[Point]:
    """Points from `since` to `until`, whole seconds, the last one at `until`.

    From what is available at `until`, back in time: what was used since is added, what was posted since is taken away.
    A settlement changes nothing that is available, so it is left out.
    """
    step = max(-(-(until - since) // POINTS), 1)
    grid = _Grid(since, step, -(-(until - since) // step), until)
    used = _used(tx, organization_id, grid)
    posted = _posted(tx, organization_id, grid)
    now = billing.account(tx, organization_id).available_cents
    return [
        Point(grid.second(place), now - (posted[-1] - posted[place]) + accrual.cents(used[-1] - used[place]))
        for place in range(grid.count + 1)
    ]


@dataclass(frozen=True, slots=True)
class _Grid:
    """Seconds at equal distances, but for the last: place 0 is `first`, place `count` is `last`."""

    first: int
    step: int
    count: int
    last: int

    def second(self, place: int) -> int:
        return min(self.first + place * self.step, self.last)

    def place_of(self, second: ColumnElement[int]) -> ColumnElement[int]:
        """The first place that is not before a second: from there on it counts."""
        return case((second <= self.first, 0), else_=(second - self.first + self.step - 1) // self.step)


def _used(tx: Tx, organization_id: str, grid: _Grid) -> list[int]:
    """The units used by each place, since the beginning of time.

    A rate that starts at `s` has come to rate * (t - s) units at `t`, and one that ends takes as much off again.
    """
    record = usage_records.c
    ours = record.organization_id == organization_id
    rates, shares = [0] * (grid.count + 1), [0] * (grid.count + 1)
    for edge, sign, known in (
        (record.started_at, 1, ours),
        (record.ended_at, -1, and_(ours, record.ended_at.is_not(None))),
    ):
        place = grid.place_of(edge)
        query = select(place, func.sum(record.rate_cents), func.sum(record.rate_cents * edge))
        for at, rate, share in tx.connection.execute(query.where(known).group_by(place)):
            if at <= grid.count:
                rates[at] += sign * rate
                shares[at] += sign * share
    running = zip(accumulate(rates), accumulate(shares), strict=True)
    return [rate * grid.second(place) - share for place, (rate, share) in enumerate(running)]


def _posted(tx: Tx, organization_id: str, grid: _Grid) -> list[int]:
    """The cents posted by each place, settlements left out."""
    row = transactions.c
    place = grid.place_of(row.created_at // accrual.MICROSECONDS)
    query = select(place, func.sum(row.amount_cents)).where(row.organization_id == organization_id)
    query = query.where(~and_(row.type == "usage", row.description.like("Usage of %"))).group_by(place)
    sums = [0] * (grid.count + 1)
    for at, cents in tx.connection.execute(query):
        if at <= grid.count:
            sums[at] += cents
    return list(accumulate(sums))
