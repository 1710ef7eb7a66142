"""Balance, usage and auto-recharge settings (section 4, "Billing")."""

from typing import Annotated

from fastapi import APIRouter, Response
from sqlalchemy import RowMapping

from relay_localcloud import accrual, billing
from relay_localcloud.billing import Account
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
        records = billing.records_since(tx.connection, organization_id, account.meter.month_start)
    burn, floor = account.meter.burn, account.floor_cents
    breakdown = _breakdown(records, account)
    return answer(
        {
            "usageCents": accrual.cents(account.meter.month_units),
            "usageHours": sum(_hours(item.seconds) for item in breakdown),
            "breakdown": [item.shown(cents) for item, cents in zip(breakdown, _shares(breakdown), strict=True)],
            "burnPerHourCents": burn,
            "autoStopFloorCents": floor,
            "projectedRunwayHours": accrual.runway_hours(account.available_cents, floor, burn),
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


class _Used:
    """What one resource used this month, over all its stints."""

    def __init__(self, record: RowMapping) -> None:
        self._record = record
        self.seconds = 0
        self.units = 0

    def add(self, record: RowMapping, account: Account) -> None:
        meter = account.meter
        used = accrual.stint_seconds(record["started_at"], record["ended_at"], meter.month_start, meter.read_at)
        self.seconds += used
        self.units += used * record["rate_cents"]

    def shown(self, cents: int) -> dict[str, object]:
        return {
            "resourceId": self._record["resource_id"],
            "kind": self._record["kind"],
            "name": self._record["name"],
            "gpuModelId": self._record["gpu_model_id"],
            "hours": _hours(self.seconds),
            "cents": cents,
        }


def _breakdown(records: list[RowMapping], account: Account) -> list[_Used]:
    by_resource: dict[str, _Used] = {}
    for record in records:
        by_resource.setdefault(record["resource_id"], _Used(record)).add(record, account)
    return list(by_resource.values())


def _shares(breakdown: list[_Used]) -> list[int]:
    return accrual.shares_in_cents([item.units for item in breakdown])


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
