"""Balance and usage (section 4, "Billing")."""

from typing import Annotated, Final

from pydantic import Field
from sqlalchemy import RowMapping
from starlette.responses import Response

from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.http.arguments import Query
from relay_localcloud.http.bodies import Answer, answer
from relay_localcloud.http.openapi import ASSUMED
from relay_localcloud.http.principal import BillingReader, OrganizationId
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel.instants import SECOND, timestamp
from relay_localcloud.kernel.store import Tx
from relay_localcloud.money import accrual, billing, transactions, usage
from relay_localcloud.money.usage import Day, Used
from relay_wire.billing import Balance, CurrentUsage, DailyUsageList

router = Router("Billing")

MOST_DAYS: Final = 365


@router.get("/v1/orgs/{orgId}/billing/balance", response_model=Balance, summary="The balance")
def get_balance(_: BillingReader, organization_id: OrganizationId, tx: Tx) -> Answer:
    """Answers every field of section 2; the newest 200 transactions, the newest first."""
    account = billing.account(tx, organization_id)
    newest = transactions.recent(tx.connection, organization_id)
    return {
        "balanceCents": account.balance_cents,
        "availableCents": account.available_cents,
        "accruedUsageCents": accrual.cents(account.meter.accrued_units),
        "currentMonthUsageCents": accrual.cents(account.meter.month_units),
        "minDepositCents": account.min_deposit_cents,
        "monthlySpendLimitCents": account.monthly_spend_limit_cents,
        "transactions": [_transaction(row) for row in newest],
    }


@router.get(
    "/v1/orgs/{orgId}/billing/usage", response_model=CurrentUsage, summary="Usage of the month", openapi_extra=ASSUMED
)
async def get_usage(caller: BillingReader, organization_id: OrganizationId, cloud: CurrentCloud) -> Response:
    """Month to date; the cents of the breakdown sum up to `usageCents`."""
    del caller
    with cloud.store.transaction() as tx:
        account = billing.account(tx, organization_id)
        meter = account.meter
        lines = usage.used_between(tx.connection, organization_id, meter.month_start, meter.read_at)
    shares = accrual.shares_in_cents([used.units for used in lines])
    return answer(
        {
            "usageCents": accrual.cents(meter.month_units),
            "usageHours": _hours(sum(used.seconds for used in lines)),
            "breakdown": [_line(used, cents) for used, cents in zip(lines, shares, strict=True)],
            "burnPerHourCents": meter.burn,
            "autoStopFloorCents": account.floor_cents,
            "projectedRunwayHours": accrual.runway_hours(account.available_cents, account.floor_cents, meter.burn),
        }
    )


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
    shown = usage.by_day(tx.connection, organization_id, days, tx.now // SECOND)
    return {"items": [_day(day) for day in shown]}


def _line(used: Used, cents: int) -> dict[str, object]:
    return {
        "resourceId": used.resource_id,
        "kind": used.kind,
        "name": used.name,
        "gpuModelId": used.gpu_model_id,
        "hours": _hours(used.seconds),
        "cents": cents,
    }


def _day(day: Day) -> dict[str, object]:
    date = timestamp(day.start * SECOND)[:10]
    return {"date": date, "usageCents": day.cents, "usageHours": _hours(day.seconds)}


def _hours(seconds: int) -> float:
    return seconds / 3600


def _transaction(row: RowMapping) -> dict[str, object]:
    return {
        "id": row["id"],
        "type": row["type"],
        "amountCents": row["amount_cents"],
        "createdAt": timestamp(row["created_at"]),
        "description": row["description"],
    }
