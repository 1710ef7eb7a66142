"""What was used, by resource and by day, from the usage records."""

from dataclasses import dataclass

from sqlalchemy import Connection, func, or_, select

from relay_localcloud.kernel.instants import DAY, SECOND
from relay_localcloud.money import accrual
from relay_localcloud.money.ledger import usage_records


@dataclass(frozen=True, slots=True)
class Used:
    """What one resource used in a time, over all its stints: microseconds that it ran, and units."""

    resource_id: str
    kind: str
    name: str
    gpu_model_id: str | None
    ran: int
    units: int


@dataclass(frozen=True, slots=True)
class Day:
    """What was used on the day (UTC) that begins at `start`: microseconds in which something ran, and cents."""

    start: int
    ran: int
    cents: int


def used_between(connection: Connection, organization_id: str, since: int, until: int) -> list[Used]:
    """What each resource used in [since, until), the oldest resource first."""
    record = usage_records.c
    ended_at = func.min(func.coalesce(record.ended_at, until), until)
    ran = func.max(0, ended_at - func.max(record.started_at, since))
    query = (
        select(
            record.resource_id,
            record.kind,
            record.name,
            record.gpu_model_id,
            func.sum(ran),
            # Apart, since units can outgrow the integers of SQLite.
            func.sum(ran // SECOND * record.rate_cents),
            func.sum(ran % SECOND * record.rate_cents),
        )
        .where(record.organization_id == organization_id, or_(record.ended_at.is_(None), record.ended_at > since))
        .group_by(record.resource_id)
        .order_by(func.min(record.sequence))
    )
    return [
        Used(row[0], row[1], row[2], row[3], ran=row[4], units=row[5] * SECOND + row[6])
        for row in connection.execute(query).all()
    ]


def by_day(connection: Connection, organization_id: str, days: int, until: int) -> list[Day]:
    """The last `days` days up to `until`, the oldest first; the cents of a month's days add up to its own.

    So a day's cents do not depend on how many days are asked for.
    """
    today = until - until % DAY
    first = max(today - (days - 1) * DAY, 0)
    begun = accrual.month_start(first)
    totals = _totals(connection, organization_id, begun, until)
    shown: list[Day] = []
    month_units = 0
    for start, (ran, units) in zip(range(begun, until + 1, DAY), totals, strict=True):
        if accrual.month_start(start) == start:
            month_units = 0
        cents = accrual.cents(month_units + units) - accrual.cents(month_units)
        month_units += units
        shown.append(Day(start, ran, cents))
    return [day for day in shown if day.start >= first]


def _totals(connection: Connection, organization_id: str, since: int, until: int) -> list[tuple[int, int]]:
    """Microseconds and units of each day from midnight `since` to the day of `until`."""
    record = usage_records.c
    query = select(record.started_at, func.coalesce(record.ended_at, until), record.rate_cents).where(
        record.organization_id == organization_id, or_(record.ended_at.is_(None), record.ended_at > since)
    )
    count = (until - since) // DAY + 1
    # A stint is its first day from its start, whole days, and its last day up to its end: whole days as differences.
    partial = [(0, 0)] * count
    whole = [(0, 0)] * (count + 1)
    for started_at, ended_at, rate in connection.execute(query):
        first, begins = divmod(max(started_at, since) - since, DAY)
        last, ends = divmod(min(ended_at, until) - since, DAY)
        for day, ran in ((last, ends), (first, -begins)):
            partial[day] = (partial[day][0] + ran, partial[day][1] + ran * rate)
        for day, sign in ((first, 1), (last, -1)):
            whole[day] = (whole[day][0] + sign, whole[day][1] + sign * rate)
    totals: list[tuple[int, int]] = []
    running = burning = 0
    for (more, faster), (ran, units) in zip(whole[:count], partial, strict=True):
        running, burning = running + more, burning + faster
        totals.append((running * DAY + ran, burning * DAY + units))
    return totals
