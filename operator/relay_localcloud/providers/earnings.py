"""What a provider's nodes earn: all that usage on them costs, exactly (section 4, "Providers"; the share is assumed).

Payouts are monthly, at the instant at which the month's usage is settled: whole cents, the rest carried to the next.
Both follow from the usage records, and from what nodes had earned by those that are forgotten, so nothing is written
when a payout falls due.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import Select, select

from relay_localcloud.capacity import nodes
from relay_localcloud.kernel.rows import Rows
from relay_localcloud.kernel.store import Tx
from relay_localcloud.money import accrual, ledger
from relay_localcloud.money.ledger import usage_records


@dataclass(frozen=True, slots=True)
class Earned:
    """What a node earned by usage that is forgotten: units by the start of the month."""

    node_id: str
    by_month: dict[str, int]


EARNED: Final = Rows(Earned, "past_earnings", key=("node_id",))


@dataclass(frozen=True, slots=True)
class Stint:
    """Usage of a node from one instant to another, at cents an hour; `ended_at` None: it still runs."""

    node_id: str
    started_at: int
    ended_at: int | None
    rate_cents: int


@dataclass(frozen=True, slots=True)
class Payout:
    """Whole cents paid at an instant for the month [start, end)."""

    start: int
    end: int
    paid_at: int
    cents: int


@dataclass(frozen=True, slots=True)
class Statement:
    """All that was earned up to an instant, in units of `money/accrual.py`: by node, and by the start of the month."""

    read_at: int
    by_node: Mapping[str, int]
    by_month: Mapping[int, int]

    @property
    def total_cents(self) -> int:
        """All of it in whole cents, floored."""
        return accrual.cents(sum(self.by_node.values()))

    @property
    def cents_by_node(self) -> dict[str, int]:
        """Whole cents of each node, which sum up to the total."""
        return dict(zip(self.by_node, accrual.shares_in_cents(list(self.by_node.values())), strict=True))

    @property
    def payouts(self) -> list[Payout]:
        """What was paid by then, the oldest first; a month without a whole cent has none."""
        paid: list[Payout] = []
        units = 0
        for start in sorted(self.by_month):
            end = _month_end(start)
            paid_at = end + accrual.SETTLED_AFTER
            if paid_at > self.read_at:
                break
            cents = accrual.cents(units + self.by_month[start]) - accrual.cents(units)
            units += self.by_month[start]
            if cents:
                paid.append(Payout(start, end, paid_at, cents))
        return paid


def statement(
    node_ids: Iterable[str], stints: Iterable[Stint], instant: int, before: Iterable[Earned] = ()
) -> Statement:
    """Add stints up to an instant to what was earned before; every one of the nodes has an entry, in their order."""
    by_node = dict.fromkeys(node_ids, 0)
    by_month: defaultdict[int, int] = defaultdict(int)
    for earned in before:
        by_node[earned.node_id] += sum(earned.by_month.values())
        for start, units in earned.by_month.items():
            by_month[int(start)] += units
    begun = [stint for stint in stints if stint.started_at < instant]
    months = _month_starts(min((stint.started_at for stint in begun), default=instant), instant)
    for stint in begun:
        for month, units in _by_month(stint, instant, months):
            by_node[stint.node_id] += units
            by_month[month] += units
    return Statement(instant, by_node, dict(by_month))


_STINTS: Final = select(
    usage_records.c.node_id, usage_records.c.started_at, usage_records.c.ended_at, usage_records.c.rate_cents
)


def of_provider(tx: Tx, organization_id: str, instant: int) -> Statement:
    """The statement of an organization up to an instant, over all nodes that it has or had."""
    mine = [node.id for node in nodes.owned(tx, organization_id)]
    record = usage_records.c
    query = _STINTS.join_from(usage_records, nodes.nodes, record.node_id == nodes.nodes.c.id).where(
        nodes.owned_by(organization_id)
    )
    of_mine = EARNED.table.c.node_id.in_(select(nodes.nodes.c.id).where(nodes.owned_by(organization_id)))
    stints = (Stint(*row) for row in tx.connection.execute(query))
    return statement(mine, stints, instant, EARNED.all(tx, of_mine))


def _keep(tx: Tx, forgotten: Select[Any]) -> None:
    """Add what nodes earned by usage that is about to be forgotten to what they had earned before."""
    query = _STINTS.where(usage_records.c.sequence.in_(forgotten), usage_records.c.node_id.is_not(None))
    of_node: defaultdict[str, list[Stint]] = defaultdict(list)
    for row in tx.connection.execute(query):
        of_node[row.node_id].append(Stint(*row))
    for node_id, stints in of_node.items():
        kept = EARNED.find(tx, node_id=node_id)
        by_month = Counter({} if kept is None else kept.by_month)
        by_month.update({str(start): units for start, units in statement([node_id], stints, tx.now).by_month.items()})
        EARNED.put(tx, node_id=node_id, by_month=by_month)


FORGOTTEN: Final = replace(ledger.ENDED, before=_keep)
"""Usage that ended so long ago that only what nodes earned by it is kept."""


def _by_month(stint: Stint, instant: int, months: Sequence[int]) -> Iterator[tuple[int, int]]:
    at, end = stint.started_at, min(instant if stint.ended_at is None else stint.ended_at, instant)
    month = bisect_right(months, at) - 1
    while at < end:
        over = min(months[month + 1], end)
        yield months[month], (over - at) * stint.rate_cents
        at, month = over, month + 1


def _month_starts(first: int, last: int) -> list[int]:
    """The starts of all months from that of `first` to the one after that of `last`."""
    starts = [accrual.month_start(first)]
    while starts[-1] <= last:
        starts.append(_month_end(starts[-1]))
    return starts


def _month_end(start: int) -> int:
    return accrual.settlement_at(start + accrual.SETTLED_AFTER + 1) - accrual.SETTLED_AFTER
