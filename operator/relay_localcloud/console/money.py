"""The page of money: the balance over time, what burns it, how long it lasts, and every transaction."""

from collections.abc import Mapping
from typing import Final

from sqlalchemy import RowMapping, select

from relay_localcloud.console.balance_series import Point, series
from relay_localcloud.console.chart import balance_chart
from relay_localcloud.console.markup import Html, element, fragment
from relay_localcloud.console.parts import Row, choices, facts, identifier, section, table
from relay_localcloud.console.reading import Reading
from relay_localcloud.console.requested import Requested
from relay_localcloud.console.wording import hourly, moment, money, span
from relay_localcloud.identity import organizations
from relay_localcloud.kernel import tables
from relay_localcloud.kernel.instants import SECOND
from relay_localcloud.kernel.store import Tx
from relay_localcloud.money import accrual, billing, transactions
from relay_localcloud.money.billing import Account

PATH: Final = "/console/money"
_LONGEST: Final = 30 * 86_400
_SPANS: Final[Mapping[str | None, tuple[str, int]]] = {
    None: ("All of it", _LONGEST),
    "hour": ("1 hour", 3_600),
    "day": ("1 day", 86_400),
    "week": ("7 days", 604_800),
}
_TRANSACTIONS_SHOWN: Final = 50


def payer(tx: Tx, requested: Requested) -> str:
    """Whose money is shown: the chosen organization's, else the first one's, which every cloud is seeded with."""
    if requested.organization_id is not None:
        return requested.organization_id
    query = select(tables.organizations.c.id).order_by(tables.FIRST_COME).limit(1)
    return str(tx.connection.execute(query).scalar_one())


def whole_life(tx: Tx, organization_id: str) -> list[Point]:
    """The balance since the organization was made, of 30 days at most."""
    return _within(tx, organization_id, _LONGEST)


def _within(tx: Tx, organization_id: str, seconds: int) -> list[Point]:
    now = tx.now // SECOND
    created = int(organizations.organization(tx, organization_id)["created_at"]) // SECOND
    return series(tx, organization_id, max(created, now - seconds), now)


def money_facts(has: Account) -> Html:
    """What is there, what it costs, how long it lasts."""
    return facts(
        ("Available", element("strong", money(has.available_cents), class_="available")),
        ("Burn", hourly(has.meter.burn)),
        ("Runway", runway(has)),
        ("Stops at", money(has.floor_cents)),
        ("Used this month", money(accrual.cents(has.meter.month_units))),
        ("Smallest deposit", money(has.min_deposit_cents)),
    )


def runway(has: Account) -> str:
    """How long the money lasts at the present burn."""
    hours = accrual.runway_hours(has.available_cents, has.floor_cents, has.meter.burn)
    return "nothing burns" if hours is None else span(int(hours * 3600))


def content(reading: Reading) -> Html:
    """The money of the organization that was chosen, or of the first one."""
    requested = reading.requested
    organization_id = payer(reading.tx, requested)
    has = billing.account(reading.tx, organization_id)
    asked = requested.word("span")
    chosen = asked if asked in _SPANS else None
    points = _within(reading.tx, organization_id, _SPANS[chosen][1])
    spans = {word: label for word, (label, _) in _SPANS.items()}
    whose = organizations.name_of(reading.tx, organization_id)
    return fragment(
        element("p", f"{whose} ", identifier(organization_id), class_="lead"),
        money_facts(has),
        section(
            "Balance over time",
            choices(requested, "Which time", "span", spans, chosen),
            balance_chart(points, has.floor_cents),
            key="balance",
        ),
        _transactions(reading.tx, organization_id),
    )


def _transactions(tx: Tx, organization_id: str) -> Html:
    rows = [_transaction(tx, row) for row in transactions.recent(tx.connection, organization_id)[:_TRANSACTIONS_SHOWN]]
    empty = "No money came in yet. Deposit some: POST /v1/orgs/{orgId}/billing/deposit."
    heads = ("When", "What", "Amount")
    return section("Transactions", table("Transactions", heads, rows, empty), key="transactions")


def _transaction(tx: Tx, row: RowMapping) -> Row:
    what = fragment(row["description"], element("small", row["type"], " ", identifier(row["id"])))
    return Row(row["id"], (moment(row["created_at"], tx.now), what, money(row["amount_cents"])))
