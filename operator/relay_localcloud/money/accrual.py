"""What running workloads cost, in exact integers and without I/O.

Rates are integer cents an hour, time is whole seconds, so usage is counted in 1/3600 cent ("units"): a rate of 249
accrues 249 units a second, and 3600 units are a cent. Nothing is rounded before it is shown or settled.
"""

from calendar import monthrange
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

UNITS_PER_CENT: Final = 3600
MICROSECONDS: Final = 1_000_000
SETTLED_AFTER_SECONDS: Final = 600
"""How long after its end a month is settled: on the 1st at 00:10 UTC (assumed)."""


@dataclass(frozen=True, slots=True)
class Meter:
    """An organization's unsettled usage, exact up to the second `read_at` and growing by `burn` a second since.

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


def month_start(second: int) -> int:
    """The first second of the calendar month (UTC) that `second` is in."""
    moment = datetime.fromtimestamp(second, UTC)
    return int(datetime(moment.year, moment.month, 1, tzinfo=UTC).timestamp())


def settlement_at(second: int) -> int:
    """The first settlement of a month that is not before `second`."""
    start = month_start(second)
    if second <= start + SETTLED_AFTER_SECONDS:
        return start + SETTLED_AFTER_SECONDS
    moment = datetime.fromtimestamp(start, UTC)
    return start + monthrange(moment.year, moment.month)[1] * 86_400 + SETTLED_AFTER_SECONDS


def read(meter: Meter, second: int) -> Meter:
    """The meter brought forward to `second`; usage before the month of `second` becomes `earlier_units`."""
    if second <= meter.read_at:
        return meter
    start = month_start(second)
    if start == meter.month_start:
        grown = meter.month_units + meter.burn * (second - meter.read_at)
        return replace(meter, read_at=second, month_units=grown)
    return replace(
        meter,
        read_at=second,
        month_start=start,
        month_units=meter.burn * (second - start),
        earlier_units=meter.accrued_units + meter.burn * (start - meter.read_at),
    )


def cents(units: int) -> int:
    """Units as whole cents, floored."""
    return units // UNITS_PER_CENT


def second_below(meter: Meter, balance_cents: int, floor_cents: int) -> int | None:
    """The first second, not before `read_at`, at which the available balance is below the floor; None for never.

    Available is the balance less accrued usage in whole cents.
    """
    missing = UNITS_PER_CENT * (balance_cents - floor_cents + 1) - meter.accrued_units
    if missing <= 0:
        return meter.read_at
    if meter.burn <= 0:
        return None
    return meter.read_at - (-missing // meter.burn)


def runway_hours(available_cents: int, floor_cents: int, burn: int) -> float | None:
    """Hours until the floor at the present burn; None when nothing burns, 0 at or below the floor (section 2)."""
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
    """Each entry in whole cents, such that they sum up to the floored total."""
    shares: list[int] = []
    running = 0
    for amount in units:
        shares.append(cents(running + amount) - cents(running))
        running += amount
    return shares
