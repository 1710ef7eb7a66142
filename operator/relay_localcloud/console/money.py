"""The page of money: the balance over time, its burn rate, how long it lasts, and the newest transactions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from relay_localcloud.console.balance import Chart, Point, series
from relay_localcloud.console.reading import Reading
from relay_localcloud.console.wording import span
from relay_localcloud.identity import organizations
from relay_localcloud.kernel.instants import DAY, HOUR
from relay_localcloud.money import accrual, billing, payments
from relay_localcloud.money.billing import Account
from relay_localcloud.money.ledger import TRANSACTIONS

_LONGEST: Final = 30 * DAY
_SPANS: Final[Mapping[str | None, tuple[str, int]]] = {
    None: ("All of it", _LONGEST),
    "hour": ("1 hour", HOUR),
    "day": ("1 day", DAY),
    "week": ("7 days", 7 * DAY),
}
_TRANSACTIONS_SHOWN: Final = 50


@dataclass(frozen=True)
class Balance:
    """The account of an organization now, how long it lasts at the present burn, and the balance over time."""

    organization_id: str
    whose: str
    has: Account
    runway: str
    points: Sequence[Point]


def balance(reading: Reading, over: int = _LONGEST) -> Balance:
    """The balance of the selected organization, else of the first one, over a span in microseconds."""
    tx, organization_id = reading.tx, reading.organization_id
    row, now = organizations.organization(tx, organization_id), tx.now
    has = billing.account(tx, organization_id)
    hours = accrual.runway_hours(has.available_cents, has.floor_cents, has.meter.burn)
    runway = "nothing burns" if hours is None else span(int(hours * 3600))
    points = series(tx, organization_id, max(row["created_at"], now - over), now)
    return Balance(organization_id, row["name"], has, runway, points)


def content(reading: Reading) -> dict[str, object]:
    """The balance over the selected span, and the newest transactions."""
    asked = reading.requested.word("span")
    chosen = asked if asked in _SPANS else None
    shown = balance(reading, _SPANS[chosen][1])
    transactions = TRANSACTIONS.page(reading.tx, None, _TRANSACTIONS_SHOWN + 1, organization_id=shown.organization_id)
    return {
        "balance": shown,
        "chart": Chart(shown.points, shown.has.floor_cents),
        "month_cents": accrual.cents(shown.has.meter.month_units),
        "deposit_key": f"console-{payments.count(reading.tx, shown.organization_id)}",
        "chosen": chosen,
        "spans": {word: label for word, (label, _) in _SPANS.items()},
        "transactions": transactions[:_TRANSACTIONS_SHOWN],
        "more": len(transactions) > _TRANSACTIONS_SHOWN,
    }
