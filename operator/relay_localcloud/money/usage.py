"""Usage by run and by day."""

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Final

from sqlalchemy import select

from relay_localcloud.kernel.instants import DAY
from relay_localcloud.kernel.store import Tx
from relay_localcloud.money import accrual, days
from relay_localcloud.money.days import Total
from relay_localcloud.money.ledger import USAGE, UsageRecord, usage_records

MOST_RUNS: Final = 5_000
"""How many runs of a month are shown: current ones, then those that ended last (assumed)."""


@dataclass(frozen=True, slots=True)
class Used:
    """What one run of a resource used in a period; without a resource, all runs that are not shown."""

    resource_id: str | None
    kind: str | None
    name: str
    gpu_model_id: str | None
    total: Total


@dataclass(frozen=True, slots=True)
class Day:
    """What was used on the day (UTC) that begins at `start`, and the units of its month before that day."""

    start: int
    total: Total
    units_before: int

    @property
    def cents(self) -> int:
        """The day's cents: a month's days add up to its cents, and do not depend on how many days are requested."""
        return accrual.cents(self.units_before + self.total.units) - accrual.cents(self.units_before)


def used_since(tx: Tx, organization_id: str, midnight: int, until: int) -> list[Used]:
    """What each run used from `midnight` to `until`, which is now, the oldest first; the last one is the rest."""
    total = reduce(add, days.totals(tx, organization_id, midnight, until), Total(0, 0))
    runs = sorted(latest(tx, organization_id, midnight), key=lambda run: run.sequence)
    shown = [_used(run, midnight, until) for run in runs]
    rest = reduce(lambda left, used: left - used.total, shown, total)
    return shown if rest == Total(0, 0) else [*shown, Used(None, None, "Earlier runs", None, rest)]


def by_day(tx: Tx, organization_id: str, count: int, until: int) -> list[Day]:
    """The last `count` days up to `until`, which is now, the oldest first."""
    today = until - until % DAY
    first = max(today - (count - 1) * DAY, 0)
    begun = accrual.month_start(first)
    totals = days.totals(tx, organization_id, begun, until)
    shown: list[Day] = []
    month_units = 0
    for start, total in zip(range(begun, until + 1, DAY), totals, strict=True):
        if accrual.month_start(start) == start:
            month_units = 0
        shown.append(Day(start, total, month_units))
        month_units += total.units
    return [day for day in shown if day.start >= first]


def latest(tx: Tx, organization_id: str, since: int) -> list[UsageRecord]:
    """Up to `MOST_RUNS` runs that are current, or ended after an instant."""
    record, found = usage_records.c, list[UsageRecord]()
    for where, newest in ((record.ended_at.is_(None), record.sequence), (record.ended_at > since, record.ended_at)):
        query = select(*USAGE.columns.values()).where(record.organization_id == organization_id, where)
        left = query.order_by(newest.desc()).limit(MOST_RUNS - len(found))
        found += [USAGE.of(row) for row in tx.connection.execute(left)]
    return found


def _used(run: UsageRecord, since: int, until: int) -> Used:
    ran = (until if run.ended_at is None else run.ended_at) - max(run.started_at, since)
    return Used(run.resource_id, run.kind, run.name, run.gpu_model_id, Total(ran, ran * run.rate_cents))
