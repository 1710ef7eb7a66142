"""Balance, usage and auto-recharge settings (section 4, "Billing")."""

from typing import Annotated

from fastapi import APIRouter, Response
from sqlalchemy import RowMapping

from relay_localcloud import accrual, billing
from relay_localcloud.billing import Used
from relay_localcloud.bodies import Body, answer
from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.identity import BillingReader, OrganizationId, OrganizationWriter
from relay_localcloud.instants import timestamp
from relay_localcloud.openapi import ASSUMED
from relay_wire.billing import AutoRecharge, AutoRechargeUpdate, Balance, CurrentUsage

router = APIRouter(tags=["Billing"])


@router.get("/v1/orgs/{orgId}/billing/balance", response_model=Balance, summary="The balance")
async def get_balance(caller: BillingReader, organization_id: OrganizationId, cloud: CurrentCloud) -> Response:
    """Answers every field of section 2; the newest 200 transactions, the newest first."""
    del caller
    with cloud.store.transaction() as tx:
        account = billing.account(tx, organization_id)
        transactions = billing.recent_transactions(tx.connection, organization_id)
    return answer(
        {
            "balanceCents": account.balance_cents,
            "availableCents": account.available_cents,
            "accruedUsageCents": accrual.cents(account.meter.accrued_units),
            "currentMonthUsageCents": accrual.cents(account.meter.month_units),
            "minDepositCents": account.min_deposit_cents,
            "monthlySpendLimitCents": account.monthly_spend_limit_cents,
            "transactions": [_transaction(row) for row in transactions],
        }
    )


@router.get(
    "/v1/orgs/{orgId}/billing/usage", response_model=CurrentUsage, summary="Usage of the month", openapi_extra=ASSUMED
)
async def get_usage(caller: BillingReader, organization_id: OrganizationId, cloud: CurrentCloud) -> Response:
    """Month to date; the cents of the breakdown sum up to `usageCents`."""
    del caller
    with cloud.store.transaction() as tx:
        account = billing.account(tx, organization_id)
        meter = account.meter
        lines = billing.used_between(tx.connection, organization_id, meter.month_start, meter.read_at)
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


@router.get("/v1/orgs/{orgId}/billing/auto-recharge", response_model=AutoRecharge, summary="Auto-recharge settings")
async def get_auto_recharge(caller: BillingReader, organization_id: OrganizationId, cloud: CurrentCloud) -> Response:
    """Answers the defaults where they were never set."""
    del caller
    with cloud.store.transaction() as tx:
        settings = billing.recharge_settings(tx, organization_id)
    return answer(settings)


@router.put("/v1/orgs/{orgId}/billing/auto-recharge", response_model=AutoRecharge, summary="Set auto-recharge")
async def set_auto_recharge(
    caller: OrganizationWriter,
    organization_id: OrganizationId,
    body: Annotated[AutoRechargeUpdate, Body(AutoRechargeUpdate)],
    cloud: CurrentCloud,
) -> Response:
    """Saves all three."""
    del caller
    with cloud.store.transaction() as tx:
        billing.save_recharge_settings(tx, organization_id, body)
        settings = billing.recharge_settings(tx, organization_id)
    return answer(settings)


def _line(used: Used, cents: int) -> dict[str, object]:
    return {
        "resourceId": used.resource_id,
        "kind": used.kind,
        "name": used.name,
        "gpuModelId": used.gpu_model_id,
        "hours": _hours(used.seconds),
        "cents": cents,
    }


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
