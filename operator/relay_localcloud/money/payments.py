"""The payment processor: it charges saved cards, and credits balances by its payment-success notification alone."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from pydantic import TypeAdapter
from sqlalchemy import Index

from relay_localcloud.http.errors import ApiError
from relay_localcloud.kernel.due import DueHandler, DueItem
from relay_localcloud.kernel.instants import SECOND
from relay_localcloud.kernel.rows import Rows
from relay_localcloud.kernel.store import Tx, read_meta, write_meta
from relay_localcloud.money import billing, payment_methods, recharge_attempts
from relay_localcloud.money.payment_methods import Card
from relay_wire.billing import DepositRequest

Mode = Literal["auto", "manual", "decline", "unconfigured"]
Status = Literal["processing", "succeeded", "failed", "requires_action"]
Reason = Literal["deposit", "auto_recharge"]

MODE: Final[TypeAdapter[Mode]] = TypeAdapter(Mode)
NOTIFICATION: Final = "payments.notification"
NOTIFIED_AFTER: Final = 2 * SECOND
"""How long the processor takes in mode auto (assumed)."""

SHOWN_CHARGES: Final = 1000

_DESCRIPTIONS: Final[Mapping[str, str]] = {"deposit": "Deposit", "auto_recharge": "Auto-recharge"}


@dataclass(frozen=True, slots=True)
class Charge:
    """A charge of a card, in whatever state."""

    sequence: int
    id: str
    organization_id: str
    reason: Reason
    amount_cents: int
    status: Status
    idempotency_key: str | None
    created_at: int


CHARGES: Final = Rows(Charge, "charges", Index("charge_of_key", "organization_id", "idempotency_key", unique=True))


def mode(tx: Tx) -> Mode:
    """How the processor behaves."""
    kept = read_meta(tx.connection, "payments")
    return "auto" if kept is None else MODE.validate_json(kept)


def set_mode(tx: Tx, wanted: Mode) -> None:
    """Make the processor behave differently from here on; what it took on already goes on as it was."""
    write_meta(tx.connection, "payments", MODE.dump_json(wanted).decode())


def require_configured(tx: Tx) -> None:
    """Refuses with 503 where there is no processor (section 7)."""
    if mode(tx) == "unconfigured":
        raise ApiError(503, "Payments are not configured: no card can be charged or changed.", "PAYMENTS_UNCONFIGURED")


def deposit(tx: Tx, organization_id: str, body: DepositRequest) -> Charge:
    """Charge the default card; the same idempotency key answers the same charge (section 2, "Deposit request").

    ApiError 400 outside the bounds of the moment and without a card, 409 for a key that came with another amount.
    """
    require_configured(tx)
    earlier = _of_key(tx, organization_id, body.idempotency_key)
    if earlier is not None:
        if earlier.amount_cents != body.amount_cents:
            raise ApiError(
                409,
                f"idempotencyKey: it came with {earlier.amount_cents} cents before, and now with {body.amount_cents}: "
                "take another key for another deposit.",
                "IDEMPOTENCY_KEY_REUSED",
            )
        return earlier
    _require_allowed(billing.account(tx, organization_id), body.amount_cents)
    card = default_card(tx, organization_id)
    if card is None:
        raise ApiError(400, "There is no saved card to charge: save one first.", "NO_PAYMENT_METHOD")
    return charge(tx, organization_id, "deposit", body.amount_cents, card, body.idempotency_key)


def default_card(tx: Tx, organization_id: str) -> Card | None:
    """The card that is charged."""
    cards = payment_methods.saved(tx, organization_id)
    if not cards:
        return None
    return Card(**{name: cards[0][name] for name in Card.__dataclass_fields__})


def charge(
    tx: Tx, organization_id: str, reason: Reason, amount_cents: int, card: Card, idempotency_key: str | None = None
) -> Charge:
    """Charge a card off-session; what comes of it is in its status, and later in the processor's notification."""
    behaviour = mode(tx)
    status = _status(behaviour, card)
    made = CHARGES.insert(
        tx,
        id=tx.new_id("ch"),
        organization_id=organization_id,
        reason=reason,
        amount_cents=amount_cents,
        status=status,
        idempotency_key=idempotency_key,
        created_at=tx.now,
    )
    if behaviour == "auto" and status == "processing":
        tx.schedule(tx.now + NOTIFIED_AFTER, NOTIFICATION, made.id)
    return made


def confirm(tx: Tx, charge_id: str) -> Charge:
    """Take the processor's notification that a charge succeeded: credit it, once however often it comes.

    ApiError 404 for an unknown charge, 409 for a declined one.
    """
    paid = CHARGES.find(tx.connection, charge_id)
    if paid is None:
        raise ApiError(404, f"There is no charge {charge_id!r}.")
    if paid.status == "failed":
        raise ApiError(409, f"The charge {charge_id!r} was declined: there is nothing to confirm.")
    if paid.status == "succeeded":
        return paid
    tx.cancel(NOTIFICATION, charge_id)
    CHARGES.change(tx, charge_id, status="succeeded")
    recharge_attempts.paid(tx, charge_id)
    recharge_attempts.retry_soon(tx, paid.organization_id)
    billing.post(tx, paid.organization_id, "deposit", paid.amount_cents, _DESCRIPTIONS[paid.reason])
    return replace(paid, status="succeeded")


def add_card(tx: Tx, organization_id: str, card: Card) -> str:
    """Save a card, and let auto-recharge try again soon."""
    card_id = payment_methods.add(tx, organization_id, card)
    recharge_attempts.retry_soon(tx, organization_id)
    billing.reset_alarms(tx, organization_id)
    return card_id


def recent(tx: Tx, organization_id: str | None) -> list[Charge]:
    """The newest charges, of one organization or of all, the oldest first."""
    mine = () if organization_id is None else (CHARGES.columns["organization_id"] == organization_id,)
    return CHARGES.select(tx.connection, *mine, newest=SHOWN_CHARGES)[::-1]


def _require_allowed(has: billing.Account, amount_cents: int) -> None:
    if amount_cents > has.deposit_cap_cents:
        raise ApiError(
            400,
            f"amountCents: {amount_cents} is over the organization's cap of {has.deposit_cap_cents} a deposit.",
            "DEPOSIT_CAP_EXCEEDED",
        )
    if amount_cents < has.min_deposit_cents:
        raise ApiError(
            400,
            f"amountCents: {amount_cents} is below the smallest deposit of the moment, {has.min_deposit_cents}: "
            "at least 1000, and what lasts for three days of what runs.",
            "INSUFFICIENT_RUNWAY",
        )


def _status(behaviour: Mode, card: Card) -> Status:
    if behaviour == "decline":
        return "failed"
    return "requires_action" if card.requires_action else "processing"


def _of_key(tx: Tx, organization_id: str, idempotency_key: str | None) -> Charge | None:
    if idempotency_key is None:
        return None
    charge = CHARGES.columns
    of_key = (charge["organization_id"] == organization_id, charge["idempotency_key"] == idempotency_key)
    return next(iter(CHARGES.select(tx.connection, *of_key)), None)


def _notified(tx: Tx, item: DueItem) -> None:
    confirm(tx, item.subject)


HANDLERS: Final[Mapping[str, DueHandler]] = {NOTIFICATION: _notified}
