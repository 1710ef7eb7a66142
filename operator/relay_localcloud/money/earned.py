"""What nodes earned by ended runs, in units of `accrual.py` by month, in a size independent of the number of runs."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from relay_localcloud.kernel.rows import Rows
from relay_localcloud.kernel.store import Tx
from relay_localcloud.money import accrual


@dataclass(frozen=True, slots=True)
class Earned:
    """What a node earned: units by the start of each month."""

    node_id: str
    by_month: dict[str, int]


EARNED: Final = Rows(Earned, "past_earnings", key=("node_id",))


def earn(tx: Tx, node_id: str, runs: Iterable[tuple[int, int]], at: int) -> None:
    """Count runs on a node that ended at an instant: when each began, and its cents per hour."""
    EARNED.add(tx, node_id=node_id, by_month={})
    kept = EARNED.find(tx, node_id=node_id)
    by_month = {} if kept is None else dict(kept.by_month)
    for since, rate_cents in runs:
        for start, ran in accrual.by_month(since, at):
            by_month[str(start)] = by_month.get(str(start), 0) + ran * rate_cents
    EARNED.change(tx, node_id, by_month=by_month)
