"""What a provider's nodes earn: the exact cost of all usage on them (section 4, "Providers"; the share is assumed).

Payouts are monthly, at the instant at which the month's usage is settled: whole cents, the rest carried to the next.
Earnings and payouts are computed from the earnings of ended runs and from current runs, so nothing is written when a
payout falls due. What becomes known of a month after its payout changes the next one (`money/earned.py`).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from sqlalchemy import select

from relay_localcloud.capacity import nodes
from relay_localcloud.kernel.store import Tx
from relay_localcloud.money import accrual
from relay_localcloud.money.earned import EARNED, Earned
from relay_localcloud.money.ledger import usage_records


@dataclass(frozen=True, slots=True)
class Stint:
    """Usage of a node from one instant to another, in cents per hour; `ended_at` None: it still runs."""

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
    """All earnings up to an instant, in units of `money/accrual.py`: by node, and by the start of the month."""

    read_at: int
    by_node: Mapping[str, int]
    by_month: Mapping[int, int]

    @property
    def total_cents(self) -> int:
        """The total in whole cents, floored."""
        return accrual.cents(sum(self.by_node.values()))

    @property
    def cents_by_node(self) -> dict[str, int]:
        """Whole cents of each node, which add up to the total."""
        return dict(zip(self.by_node, accrual.shares_in_cents(list(self.by_node.values())), strict=True))

    @property
    def payouts(self) -> list[Payout]:
        """The payouts up to that instant, the oldest first; a month without a whole cent has none."""
        paid: list[Payout] = []
        units = paid_cents = 0
        for start in sorted(self.by_month):
            end = accrual.month_end(start)
            paid_at = end + accrual.SETTLED_AFTER
            if paid_at > self.read_at:
                break
            units += self.by_month[start]
            cents = accrual.cents(units) - paid_cents
            if cents > 0:
                paid_cents += cents
                paid.append(Payout(start, end, paid_at, cents))
        return paid


def statement(
    node_ids: Iterable[str], stints: Iterable[Stint], instant: int, before: Iterable[Earned] = ()
) -> Statement:
    """Add stints up to an instant to earlier earnings; every one of the nodes has an entry, in their order."""
    by_node = dict.fromkeys(node_ids, 0)
    by_month: defaultdict[int, int] = defaultdict(int)
    for earned in before:
        by_node[earned.node_id] += sum(earned.by_month.values())
        for start, units in earned.by_month.items():
            by_month[int(start)] += units
    begun = [stint for stint in stints if stint.started_at < instant]
    for stint in begun:
        over = instant if stint.ended_at is None else min(stint.ended_at, instant)
        for month, ran in accrual.by_month(stint.started_at, over):
            by_node[stint.node_id] += ran * stint.rate_cents
            by_month[month] += ran * stint.rate_cents
    return Statement(instant, by_node, dict(by_month))


_STINTS: Final = select(
    usage_records.c.node_id, usage_records.c.started_at, usage_records.c.ended_at, usage_records.c.rate_cents
)


def of_provider(tx: Tx, organization_id: str, instant: int) -> Statement:
    """The statement of an organization up to an instant, over all nodes that it has or had."""
    mine = [node.id for node in nodes.owned(tx, organization_id)]
    record = usage_records.c
    query = _STINTS.join_from(usage_records, nodes.nodes, record.node_id == nodes.nodes.c.id).where(
        nodes.owned_by(organization_id), record.ended_at.is_(None)
    )
    of_mine = EARNED.table.c.node_id.in_(select(nodes.nodes.c.id).where(nodes.owned_by(organization_id)))
    stints = (Stint(*row) for row in tx.connection.execute(query))
    return statement(mine, stints, instant, EARNED.all(tx, of_mine))
