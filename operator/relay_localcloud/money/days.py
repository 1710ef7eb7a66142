"""Usage by day, as running totals: an organization's usage is read from a row per day, however many runs there were.

A run that begins at an offset into its day has not run for that offset by the end of the day; for the day on which it
ends, the reverse holds. So two sums a day are exact for any time that ends now or at midnight.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Final

from sqlalchemy import bindparam, func, select

from relay_localcloud.kernel.instants import DAY
from relay_localcloud.kernel.prepared import Prepared, adding
from relay_localcloud.kernel.rows import Rows
from relay_localcloud.kernel.store import Tx
from relay_localcloud.money.ledger import KEPT_UNIT


@dataclass(frozen=True, slots=True)
class UsageDay:
    """The runs that begin on a day (UTC) minus those that end on it: their number, rates, and offsets from midnight."""

    organization_id: str
    day: int  # its first instant
    runs: int
    burn: int  # cents per hour
    late: int  # microseconds after midnight, of all runs together
    late_units: int  # units of `accrual.py` in that time
    late_rest: int


@dataclass(frozen=True, slots=True)
class Total:
    """Microseconds of running, and units."""

    ran: int
    units: int

    def __add__(self, other: "Total") -> "Total":
        """The sum of both."""
        return Total(self.ran + other.ran, self.units + other.units)

    def __sub__(self, other: "Total") -> "Total":
        """The difference of both."""
        return Total(self.ran - other.ran, self.units - other.units)


DAYS: Final = Rows(UsageDay, "usage_days", key=("organization_id", "day"))
_day = DAYS.table.c
_COUNT: Final = adding(DAYS.table, "organization_id", "day")
_BEFORE: Final = Prepared(
    select(func.coalesce(func.sum(_day.runs), 0), func.coalesce(func.sum(_day.burn), 0)).where(
        _day.organization_id == bindparam("organization"), _day.day < bindparam("since")
    )
)


def began(tx: Tx, organization_id: str, rate_cents: int, at: int) -> None:
    """Count a run that began at an instant at this rate."""
    _count(tx, organization_id, 1, rate_cents, at)


def ended(tx: Tx, organization_id: str, runs: int, burn: int, at: int) -> None:
    """Count runs that ended at an instant; `burn` is their cents per hour together."""
    _count(tx, organization_id, -runs, -burn, at)


def totals(tx: Tx, organization_id: str, since: int, until: int) -> Iterator[Total]:
    """The total of each day from midnight `since` to the day of `until`, which is now."""
    runs, burn = _BEFORE.run(tx.connection, organization=organization_id, since=since).fetchone()
    kept = {row.day: row for row in DAYS.all(tx, _day.day >= since, organization_id=organization_id)}
    for start in range(since, until + 1, DAY):
        day = kept.get(start, UsageDay(organization_id, start, 0, 0, 0, 0, 0))
        runs, burn, length = runs + day.runs, burn + day.burn, min(DAY, until - start)
        yield Total(runs * length - day.late, burn * length - day.late_units * KEPT_UNIT - day.late_rest)


def _count(tx: Tx, organization_id: str, runs: int, burn: int, at: int) -> None:
    late = at % DAY
    units, rest = divmod(burn * late, KEPT_UNIT)
    day = UsageDay(organization_id, at - late, runs, burn, runs * late, units, rest)
    _COUNT.run(tx.connection, **{f"new_{name}": value for name, value in asdict(day).items()}).fetchone()
