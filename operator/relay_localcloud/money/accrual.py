"""What running workloads cost, in exact integers and without I/O.

Rates are integer cents per hour, time is in microseconds, so usage is counted in cent-microseconds per hour ("units"):
a rate of 249 accrues 249 units a microsecond. Nothing is rounded before it is shown or settled, so the cost of a stint
is exact, however short it is.
"""

from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from relay_localcloud.kernel.instants import DAY, HOUR, MINUTE, SECOND

UNITS_PER_CENT: Final = HOUR
SETTLED_AFTER: Final = 10 * MINUTE
"""How long after its end a month is settled: on the 1st at 00:10 UTC (assumed)."""


@dataclass(frozen=True, slots=True)
class Meter:
    """An organization's unsettled usage in units, exact up to `read_at` and growing by `burn` a microsecond since.

    `month_units` accrued in the calendar month that starts at `month_start`; `earlier_units` before it, unsettled.
    """

    read_at: int
    month_start: int
    month_units: int
    earlier_units: int
    burn: int  # cents an hour, over all open stints

    @property
    def accrued_units(self) -> int:
        """All usage that no transaction has settled."""
        return self.month_units + self.earlier_units


def month_start(instant: int) -> int:
    """The first instant of the calendar month (UTC) that `instant` is in."""
    moment = datetime.fromtimestamp(instant // SECOND, UTC)
    return int(datetime(moment.year, moment.month, 1, tzinfo=UTC).timestamp()) * SECOND


def month_end(start: int) -> int:
    """The first instant after the month that begins at `start`."""
    moment = datetime.fromtimestamp(start // SECOND, UTC)
    return start + monthrange(moment.year, moment.month)[1] * DAY


def unpaid_since(instant: int) -> int:
    """The start of the first month that is not settled and paid out at `instant`."""
    return month_start(instant - SETTLED_AFTER)


def by_month(since: int, until: int) -> Iterator[tuple[int, int]]:
    """The months of a period, by their start, and how much of the period is in each."""
    while since < until:
        start = month_start(since)
        over = min(month_end(start), until)
        yield start, over - since
        since = over


def settlement_at(instant: int) -> int:
    """The instant of the first monthly settlement that is not before `instant`."""
    start = month_start(instant)
    if instant <= start + SETTLED_AFTER:
        return start + SETTLED_AFTER
    return month_end(start) + SETTLED_AFTER


def read(meter: Meter, instant: int) -> Meter:
    """The meter read at `instant`; usage before the month of `instant` becomes `earlier_units`."""
    if instant <= meter.read_at:
        return meter
    start = month_start(instant)
    if start == meter.month_start:
        grown = meter.month_units + meter.burn * (instant - meter.read_at)
        return replace(meter, read_at=instant, month_units=grown)
    return replace(
        meter,
        read_at=instant,
        month_start=start,
        month_units=meter.burn * (instant - start),
        earlier_units=meter.accrued_units + meter.burn * (start - meter.read_at),
    )


def turned(meter: Meter, rate: int, since: int) -> Meter:
    """The meter with its burn changed by `rate` since an instant that is not after `read_at`."""
    missed = dict(by_month(since, meter.read_at))
    this_month = missed.pop(meter.month_start, 0)
    return replace(
        meter,
        month_units=meter.month_units + rate * this_month,
        earlier_units=meter.earlier_units + rate * sum(missed.values()),
        burn=meter.burn + rate,
    )


def cents(units: int) -> int:
    """Units as whole cents, floored."""
    return units // UNITS_PER_CENT


def instant_below(meter: Meter, balance_cents: int, floor_cents: int) -> int | None:
    """The first instant, not before `read_at`, at which the available balance is below the floor; None for never.

    Available is the balance minus accrued usage in whole cents.
    """
    missing = UNITS_PER_CENT * (balance_cents - floor_cents + 1) - meter.accrued_units
    if missing <= 0:
        return meter.read_at
    if meter.burn <= 0:
        return None
    return meter.read_at - (-missing // meter.burn)


def runway_hours(available_cents: int, floor_cents: int, burn: int) -> float | None:
    """Hours until the floor at the present burn; None if the burn is 0, 0 at or below the floor (section 2)."""
    if burn <= 0:
        return None
    return max(0, available_cents - floor_cents) / burn


def min_deposit_cents(available_cents: int, floor_cents: int, burn: int, cap_cents: int) -> int:
    """The smallest deposit allowed now: 1000, raised to three days' runway while usage is open, within the cap."""
    if burn <= 0:
        return 1000
    three_days = 72 * burn - (available_cents - floor_cents)
    return max(1000, min(cap_cents, 50_000, three_days))


def shares_in_cents(units: list[int]) -> list[int]:
    """Each entry in whole cents, so that they add up to the floored total."""
    shares: list[int] = []
    running = 0
    for amount in units:
        shares.append(cents(running + amount) - cents(running))
        running += amount
    return shares
