"""Balance, usage, deposits, saved cards and auto-recharge (section 4, "Billing")."""

import secrets
from functools import partial
from typing import Annotated, Final

from pydantic import Field

from relay_localcloud.http.arguments import Path, Query
from relay_localcloud.http.bodies import Answer, Body
from relay_localcloud.http.errors import not_found
from relay_localcloud.http.openapi import ASSUMED
from relay_localcloud.http.pages import PageRequest
from relay_localcloud.http.principal import BillingReader, OrganizationId, OrganizationWriter
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel.instants import HOUR, timestamp
from relay_localcloud.kernel.rows import shown
from relay_localcloud.kernel.store import Tx
from relay_localcloud.money import accrual, alarms, billing, payments, usage
from relay_localcloud.money.ledger import CARDS, TRANSACTIONS, Card
from relay_localcloud.money.usage import Day, Used
from relay_wire.billing import (
    AutoRecharge,
    AutoRechargeUpdate,
    Balance,
    ChargeOutcome,
    CurrentUsage,
    DailyUsageList,
    DepositRequest,
    PaymentMethodList,
    SetupIntent,
)

router = Router("Billing")

MOST_DAYS: Final = 365
SHOWN_TRANSACTIONS: Final = 200
"""How many transactions a balance shows (assumed)."""

PUBLISHABLE_KEY: Final = "pk_test_localcloud"


@router.get("/v1/orgs/{orgId}/billing/balance", response_model=Balance, summary="The balance")
def get_balance(_: BillingReader, organization_id: OrganizationId, tx: Tx) -> Answer:
    """Answers every field of section 2; the newest 200 transactions, the newest first."""
    account = billing.account(tx, organization_id)
    newest = TRANSACTIONS.page(tx, None, SHOWN_TRANSACTIONS, organization_id=organization_id)
    return {
        "balanceCents": account.balance_cents,
        "availableCents": account.available_cents,
        "accruedUsageCents": accrual.cents(account.meter.accrued_units),
        "currentMonthUsageCents": accrual.cents(account.meter.month_units),
        "minDepositCents": account.min_deposit_cents,
        "monthlySpendLimitCents": account.monthly_spend_limit_cents,
        "transactions": [shown(row, "id", "type", "amount_cents", "created_at", "description") for row in newest],
    }


@router.get(
    "/v1/orgs/{orgId}/billing/usage", response_model=CurrentUsage, summary="Usage of the month", openapi_extra=ASSUMED
)
def get_usage(_: BillingReader, organization_id: OrganizationId, tx: Tx) -> Answer:
    """Month to date; the breakdown has a line for each of at most 5,000 runs, and one for the rest.

    Their cents sum up to `usageCents`.
    """
    account = billing.account(tx, organization_id)
    meter = account.meter
    lines = usage.used_since(tx, organization_id, meter.month_start, meter.read_at)
    shares = accrual.shares_in_cents([used.total.units for used in lines])
    return {
        "usageCents": accrual.cents(meter.month_units),
        "usageHours": _hours(sum(used.total.ran for used in lines)),
        "breakdown": [_line(used, cents) for used, cents in zip(lines, shares, strict=True)],
        "burnPerHourCents": meter.burn,
        "autoStopFloorCents": account.floor_cents,
        "projectedRunwayHours": accrual.runway_hours(account.available_cents, account.floor_cents, meter.burn),
    }


@router.get(
    "/v1/orgs/{orgId}/billing/usage/daily", response_model=DailyUsageList, summary="Usage by day", openapi_extra=ASSUMED
)
def get_daily_usage(
    _: BillingReader,
    organization_id: OrganizationId,
    tx: Tx,
    days: Annotated[int, Query(), Field(ge=1, le=MOST_DAYS, description="How many days, today included.")] = 30,
) -> Answer:
    """Answers every day (UTC), the oldest first; the cents of a month's days sum up to those of the month."""
    shown = usage.by_day(tx, organization_id, days, tx.now)
    return {"items": [_day(day) for day in shown]}


class Deposit(DepositRequest):
    """A deposit; one under 1000 cents gets the same refusal as every other below `minDepositCents`."""

    amount_cents: Annotated[int, Field(le=50000, json_schema_extra={"minimum": 1000})]


@router.post("/v1/orgs/{orgId}/billing/deposit", response_model=ChargeOutcome, summary="Charge the default card")
def deposit(_: OrganizationWriter, organization_id: OrganizationId, body: Body[Deposit], tx: Tx) -> Answer:
    """Answers the outcome of the charge, even a decline; the balance changes with the processor's notification."""
    made = payments.deposit(tx, organization_id, body)
    return {"chargeId": made.id, "status": made.status, "amountCents": made.amount_cents}


@router.post("/v1/orgs/{orgId}/billing/setup-intent", response_model=SetupIntent, summary="Begin to save a card")
def create_setup_intent(_: OrganizationWriter, organization_id: OrganizationId, tx: Tx) -> Answer:
    """Answers what a browser needs to go on; here, `POST /_localcloud/orgs/{orgId}/cards` saves the card."""
    del organization_id
    payments.require_configured(tx)
    client_secret = f"{tx.new_id('seti')}_secret_{secrets.token_hex(16)}"
    return {"clientSecret": client_secret, "publishableKey": PUBLISHABLE_KEY}


@router.get("/v1/orgs/{orgId}/billing/payment-methods", response_model=PaymentMethodList, summary="The saved cards")
def list_payment_methods(_: BillingReader, organization_id: OrganizationId, page: PageRequest, tx: Tx) -> Answer:
    """Answers a page, the default card, which is the oldest, first; brand, last4 and expiry only."""
    rows = partial(CARDS.after, tx, organization_id=organization_id)
    return page.oldest("payment methods", organization_id, rows, _card)


@router.delete("/v1/orgs/{orgId}/billing/payment-methods/{paymentMethodId}", summary="Forget a saved card")
def delete_payment_method(
    _: OrganizationWriter, organization_id: OrganizationId, card_id: Annotated[str, Path("paymentMethodId")], tx: Tx
) -> None:
    """Answers 204; charges that are under way go on."""
    payments.require_configured(tx)
    if not CARDS.remove(tx, id=card_id, organization_id=organization_id):
        raise not_found("payment method", card_id)


@router.get("/v1/orgs/{orgId}/billing/auto-recharge", response_model=AutoRecharge, summary="Auto-recharge settings")
def get_auto_recharge(_: BillingReader, organization_id: OrganizationId, tx: Tx) -> Answer:
    """Answers the defaults if they were never set."""
    return alarms.recharge_settings(tx, organization_id)


@router.put("/v1/orgs/{orgId}/billing/auto-recharge", response_model=AutoRecharge, summary="Set auto-recharge")
def set_auto_recharge(
    _: OrganizationWriter, organization_id: OrganizationId, body: Body[AutoRechargeUpdate], tx: Tx
) -> Answer:
    """Saves all three; they hold at once."""
    alarms.set_recharge(tx, organization_id, body)
    return alarms.recharge_settings(tx, organization_id)


def _card(card: Card) -> dict[str, object]:
    return shown(card, "id", "brand", "last4", "exp_month", "exp_year")


def _line(used: Used, cents: int) -> dict[str, object]:
    named = shown(used, "resource_id", "kind", "name", "gpu_model_id")
    return {**named, "hours": _hours(used.total.ran), "cents": cents}


def _day(day: Day) -> dict[str, object]:
    date = timestamp(day.start)[:10]
    return {"date": date, "usageCents": day.cents, "usageHours": _hours(day.total.ran)}


def _hours(ran: int) -> float:
    return ran / HOUR
