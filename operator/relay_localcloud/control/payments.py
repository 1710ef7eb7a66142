"""`/_localcloud/payments`: the payment processor of deposits and auto-recharge; and saved cards."""

from typing import Annotated

from pydantic import Field

from relay_localcloud.control.records import OrganizationFilter
from relay_localcloud.http.bodies import Answer, ControlBody, ControlRequest, OptionalControlBody
from relay_localcloud.http.principal import OrganizationId, ResourceId
from relay_localcloud.http.routing import Router
from relay_localcloud.identity import organizations
from relay_localcloud.kernel.rows import shown
from relay_localcloud.kernel.store import Tx
from relay_localcloud.money import payments
from relay_localcloud.money.ledger import USUAL_CARD
from relay_localcloud.money.payments import Charge, Mode

router = Router()


class PaymentsChange(ControlRequest):
    """How the processor behaves: it confirms by itself, waits to be told, declines, or is not there."""

    mode: Mode


class CardCreate(ControlRequest):
    """A card to save; absent fields are those of a card that works."""

    brand: Annotated[str, Field(min_length=1, max_length=50)] = USUAL_CARD["brand"]
    last4: Annotated[str, Field(pattern=r"^[0-9]{4}$")] = USUAL_CARD["last4"]
    exp_month: Annotated[int, Field(ge=1, le=12)] = USUAL_CARD["exp_month"]
    exp_year: Annotated[int, Field(ge=1970, le=9999)] = USUAL_CARD["exp_year"]
    requires_action: bool = USUAL_CARD["requires_action"]


@router.post("/payments", summary="Change how the payment processor behaves")
def change_payments(body: ControlBody[PaymentsChange], tx: Tx) -> Answer:
    """Answers `{mode}`; charges that are under way go on as they were."""
    payments.set_mode(tx, body.mode)
    return {"mode": body.mode}


@router.get("/payments", summary="The payment processor and its charges")
def list_payments(tx: Tx, organization_id: OrganizationFilter = None) -> Answer:
    """Answers `{mode, items}`, the newest 1,000 charges, oldest first, those of auto-recharge included."""
    items = [_shown(charge) for charge in payments.recent(tx, organization_id)]
    return {"mode": payments.mode(tx), "items": items}


@router.post("/payments/{id}/confirm", summary="Send the notification that a charge succeeded")
def confirm_payment(charge_id: ResourceId, tx: Tx) -> Answer:
    """Answers the charge, now `succeeded`; it is credited once, however often it is confirmed."""
    return _shown(payments.confirm(tx, charge_id))


@router.post("/orgs/{orgId}/cards", summary="Save a card")
def save_card(organization_id: OrganizationId, body: OptionalControlBody[CardCreate], tx: Tx) -> Answer:
    """Answers `{id}`; charges of a card with `requiresAction` wait until they are confirmed."""
    organizations.organization(tx, organization_id)
    return {"id": payments.add_card(tx, organization_id, **body.model_dump())}


def _shown(charge: Charge) -> dict[str, object]:
    rest = shown(charge, "organization_id", "reason", "status", "amount_cents", "created_at")
    return {"chargeId": charge.id, **rest}
