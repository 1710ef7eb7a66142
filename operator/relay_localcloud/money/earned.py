"""What nodes earned by ended runs, in units of `accrual.py` by month, in a size independent of the number of runs."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from relay_localcloud.kernel.rows import Rows
from relay_localcloud.kernel.store import Tx
from relay_localcloud.money import accrual


@dataclass(frozen=True, slots=True)
class Earned:
    """What a node earned: units by the start of each month, negative where a later payout makes up for an earlier."""

    node_id: str
    by_month: dict[str, int]


EARNED: Final = Rows(Earned, "past_earnings", key=("node_id",))


def began(tx: Tx, node_id: str, rate_cents: int, since: int) -> None:
    """Count a run on a node that became known now: what it earned in months already paid out is for the next payout."""
    _add(tx, node_id, _carried(since, accrual.unpaid_since(tx.now), rate_cents))


def ended(tx: Tx, node_id: str, runs: Iterable[tuple[int, int]], at: int) -> None:
    """Count runs on a node that ended at an instant: when each began, and its cents per hour.

    If months after that instant are paid out, the next payouts are lower by what the runs did not earn in them.
    """
    units: Counter[int] = Counter()
    for since, rate_cents in runs:
        for start, ran in accrual.by_month(since, at):
            units[start] += ran * rate_cents
        units.update(_carried(at, accrual.unpaid_since(tx.now), -rate_cents))
    _add(tx, node_id, units)


def _carried(since: int, unpaid_since: int, rate_cents: int) -> Mapping[int, int]:
    """The changes by month that move what was earned since an instant into the first month not yet paid out."""
    moved = {start: -ran * rate_cents for start, ran in accrual.by_month(since, unpaid_since)}
    return moved | {unpaid_since: -sum(moved.values())} if moved else {}


def _add(tx: Tx, node_id: str, units: Mapping[int, int]) -> None:
    if not units:
        return
    EARNED.add(tx, node_id=node_id, by_month={})
    kept = EARNED.find(tx, node_id=node_id)
    by_month = {} if kept is None else dict(kept.by_month)
    for start, more in units.items():
        by_month[str(start)] = by_month.get(str(start), 0) + more
    EARNED.change(tx, node_id, by_month=by_month)
