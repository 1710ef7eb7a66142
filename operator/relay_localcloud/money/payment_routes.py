"""Deposits, saved cards and auto-recharge (section 4, "Billing")."""

import secrets
from typing import Annotated, Final

from pydantic import Field
from starlette.responses import Response

from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.http.arguments import Path
from relay_localcloud.http.bodies import Answer, Body, answer
from relay_localcloud.http.errors import not_found
from relay_localcloud.http.principal import BillingReader, OrganizationId, OrganizationWriter
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel.store import Tx
from relay_localcloud.money import payment_methods, payments, recharge
from relay_wire.billing import (
    AutoRecharge,
    AutoRechargeUpdate,
    ChargeOutcome,
    DepositRequest,
    PaymentMethodList,
    SetupIntent,
)

router = Router("Billing")

PUBLISHABLE_KEY: Final = "pk_test_localcloud"


class Deposit(DepositRequest):
    """A deposit as it is read: what is under 1000 cents is refused as every amount below `minDepositCents` is."""

    amount_cents: Annotated[int, Field(le=50000, json_schema_extra={"minimum": 1000})]


@router.post("/v1/orgs/{orgId}/billing/deposit", response_model=ChargeOutcome, summary="Charge the default card")
def deposit(_: OrganizationWriter, organization_id: OrganizationId, body: Body[Deposit], tx: Tx) -> Answer:
    """Answers what came of the charge, a decline as well; the balance follows by the processor's notification."""
    made = payments.deposit(tx, organization_id, body)
    return {"chargeId": made.id, "status": made.status, "amountCents": made.amount_cents}


@router.post("/v1/orgs/{orgId}/billing/setup-intent", response_model=SetupIntent, summary="Begin to save a card")
async def create_setup_intent(
    caller: OrganizationWriter, organization_id: OrganizationId, cloud: CurrentCloud
) -> Response:
    """Answers what a browser would go on with; here, `POST /_localcloud/orgs/{orgId}/cards` saves the card."""
    del caller, organization_id
    with cloud.store.transaction() as tx:
        payments.require_configured(tx)
        intent_id = tx.new_id("seti")
    client_secret = f"{intent_id}_secret_{secrets.token_hex(16)}"
    return answer({"clientSecret": client_secret, "publishableKey": PUBLISHABLE_KEY})


@router.get("/v1/orgs/{orgId}/billing/payment-methods", response_model=PaymentMethodList, summary="The saved cards")
async def list_payment_methods(caller: BillingReader, organization_id: OrganizationId, cloud: CurrentCloud) -> Response:
    """Answers `{items}`, the default card, which is the oldest, first; brand, last4 and expiry only."""
    del caller
    with cloud.store.transaction() as tx:
        cards = payment_methods.saved(tx, organization_id)
    items = [
        {
            "id": card["id"],
            "brand": card["brand"],
            "last4": card["last4"],
            "expMonth": card["exp_month"],
            "expYear": card["exp_year"],
        }
        for card in cards
    ]
    return answer({"items": items})


@router.delete("/v1/orgs/{orgId}/billing/payment-methods/{paymentMethodId}", summary="Forget a saved card")
def delete_payment_method(
    _: OrganizationWriter, organization_id: OrganizationId, card_id: Annotated[str, Path("paymentMethodId")], tx: Tx
) -> None:
    """Answers 204; charges that are under way go on."""
    payments.require_configured(tx)
    if not payment_methods.remove(tx, organization_id, card_id):
        raise not_found("payment method", card_id)


@router.get("/v1/orgs/{orgId}/billing/auto-recharge", response_model=AutoRecharge, summary="Auto-recharge settings")
def get_auto_recharge(_: BillingReader, organization_id: OrganizationId, tx: Tx) -> Answer:
    """Answers the defaults where they were never set."""
    return recharge.settings_of(tx, organization_id)


@router.put("/v1/orgs/{orgId}/billing/auto-recharge", response_model=AutoRecharge, summary="Set auto-recharge")
def set_auto_recharge(
    _: OrganizationWriter, organization_id: OrganizationId, body: Body[AutoRechargeUpdate], tx: Tx
) -> Answer:
    """Saves all three; they hold at once."""
    recharge.save_settings(tx, organization_id, body)
    return recharge.settings_of(tx, organization_id)
