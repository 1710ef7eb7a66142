"""What was used by instants at equal distances, exactly, from the usage records."""

from dataclasses import dataclass
from itertools import accumulate

from sqlalchemy import ColumnElement, and_, case, func, select

from relay_localcloud.kernel.instants import SECOND
from relay_localcloud.kernel.store import Tx
from relay_localcloud.money.ledger import usage_records


@dataclass(frozen=True, slots=True)
class Grid:
    """Instants at equal distances, but for the last: place 0 is `first`, place `count` is `last`."""

    first: int
    step: int
    count: int
    last: int

    def instant(self, place: int) -> int:
        return min(self.first + place * self.step, self.last)

    def place_of(self, instant: ColumnElement[int]) -> ColumnElement[int]:
        """The first place that is not before an instant: from there on it counts."""
        return case((instant <= self.first, 0), else_=(instant - self.first + self.step - 1) // self.step)


def units_used(tx: Tx, whose: ColumnElement[bool], grid: Grid) -> list[int]:
    """The units used by each place, since the beginning of time, of the usage records that are meant.

    A rate that starts at `s` has come to rate * (t - s) units at `t`, and one that ends takes as much off again.
    """
    record = usage_records.c
    rates, shares = [0] * (grid.count + 1), [0] * (grid.count + 1)
    for edge, sign, known in (
        (record.started_at, 1, whose),
        (record.ended_at, -1, and_(whose, record.ended_at.is_not(None))),
    ):
        place = grid.place_of(edge)
        # Apart, since units can outgrow the integers of SQLite.
        share = func.sum(record.rate_cents * (edge // SECOND)), func.sum(record.rate_cents * (edge % SECOND))
        query = select(place, func.sum(record.rate_cents), *share).where(known).group_by(place)
        for at, rate, in_seconds, rest in tx.connection.execute(query):
            if at <= grid.count:
                rates[at] += sign * rate
                shares[at] += sign * (in_seconds * SECOND + rest)
    running = zip(accumulate(rates), accumulate(shares), strict=True)
    return [rate * grid.instant(place) - share for place, (rate, share) in enumerate(running)]
