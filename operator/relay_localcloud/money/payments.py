"""The payment processor: it charges saved cards; only its payment-success notification credits a balance."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import TypeAdapter
from sqlalchemy import Index, func, select

from relay_localcloud.http.errors import ApiError
from relay_localcloud.kernel.due import DueHandler, DueItem
from relay_localcloud.kernel.instants import MINUTE, SECOND
from relay_localcloud.kernel.rows import Rows
from relay_localcloud.kernel.store import Tx, read_meta, write_meta
from relay_localcloud.money import billing
from relay_localcloud.money.ledger import ATTEMPTS, CARDS, Card
from relay_wire.billing import DepositRequest

Mode = Literal["auto", "manual", "decline", "unconfigured"]
Status = Literal["processing", "succeeded", "failed", "requires_action"]
Reason = Literal["deposit", "auto_recharge"]

MODE: Final[TypeAdapter[Mode]] = TypeAdapter(Mode)
NOTIFICATION: Final = "payments.notification"
NOTIFIED_AFTER: Final = 2 * SECOND
"""The processor's delay in mode auto (assumed)."""

PAUSE: Final = MINUTE
"""The wait between two recharges (assumed): section 2 speaks of ticks."""

SHOWN_CHARGES: Final = 1000
KEY_REUSED: Final = "IDEMPOTENCY_KEY_REUSED"
"""The error code for a deposit whose key was used with another amount."""

_DESCRIPTIONS: Final[Mapping[str, str]] = {"deposit": "Deposit", "auto_recharge": "Auto-recharge"}


@dataclass(frozen=True, slots=True)
class Charge:
    """A charge of a card, in any state."""

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
    """The processor's mode: as set, else automatic, unless strangers could fund themselves with that."""
    kept = read_meta(tx.connection, "payments")
    if kept is not None:
        return MODE.validate_json(kept)
    return "unconfigured" if tx.beyond_loopback else "auto"


def set_mode(tx: Tx, wanted: Mode) -> None:
    """Change the processor's mode; charges under way are not affected."""
    write_meta(tx.connection, "payments", MODE.dump_json(wanted).decode())


def require_configured(tx: Tx) -> None:
    """Refuse with 503 if there is no processor (section 7)."""
    if mode(tx) == "unconfigured":
        message = "Payments are not configured: no card can be charged or changed; an administrator adds funds."
        raise ApiError(503, message, "PAYMENTS_UNCONFIGURED")


def deposit(tx: Tx, organization_id: str, body: DepositRequest) -> Charge:
    """Charge the default card; the same idempotency key answers the same charge (section 2, "Deposit request").

    ApiError 400 outside the current bounds and without a card, 409 for a key that was used with another amount.
    """
    of_key = {"organization_id": organization_id, "idempotency_key": body.idempotency_key}
    earlier = CHARGES.find(tx, **of_key) if body.idempotency_key else None
    if earlier is not None:
        if earlier.amount_cents != body.amount_cents:
            raise ApiError(
                409,
                f"idempotencyKey: it came with {earlier.amount_cents} cents before, and now with {body.amount_cents}: "
                "use another key for another deposit.",
                KEY_REUSED,
            )
        return earlier
    _require_allowed(billing.account(tx, organization_id), body.amount_cents)
    require_configured(tx)
    card = default_card(tx, organization_id)
    if card is None:
        raise ApiError(400, "There is no saved card to charge: save one first.", "NO_PAYMENT_METHOD")
    return charge(tx, organization_id, "deposit", body.amount_cents, card, body.idempotency_key)


def default_card(tx: Tx, organization_id: str) -> Card | None:
    """The card that is charged."""
    return next(iter(CARDS.all(tx, organization_id=organization_id)), None)


def charge(
    tx: Tx, organization_id: str, reason: Reason, amount_cents: int, card: Card, idempotency_key: str | None = None
) -> Charge:
    """Charge a card off-session; the outcome is in its status, and later in the processor's notification."""
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
    """Take the processor's notification that a charge succeeded: credit it, only once even if notified repeatedly.

    ApiError 404 for an unknown charge, 409 for a declined one.
    """
    paid = CHARGES.find(tx, id=charge_id)
    if paid is None:
        raise ApiError(404, f"There is no charge {charge_id!r}.")
    if paid.status == "failed":
        raise ApiError(409, f"The charge {charge_id!r} was declined: there is nothing to confirm.")
    if paid.status == "succeeded":
        return paid
    tx.cancel(NOTIFICATION, charge_id)
    for attempts in ATTEMPTS.all(tx, charge_id=charge_id):
        ATTEMPTS.changed(tx, attempts, charge_id=None)
    retry_soon(tx, paid.organization_id)
    billing.post(tx, paid.organization_id, "deposit", paid.amount_cents, _DESCRIPTIONS[paid.reason])
    return CHARGES.changed(tx, paid, status="succeeded")


def add_card(tx: Tx, organization_id: str, **card: object) -> str:
    """Save a card, and let auto-recharge try again soon; returns the card's id."""
    saved = CARDS.insert(tx, id=tx.new_id("pm"), organization_id=organization_id, **card)
    retry_soon(tx, organization_id)
    billing.reset_alarms(tx, organization_id)
    return saved.id


def retry_soon(tx: Tx, organization_id: str) -> None:
    """Forget declined charges: there is another card, or a charge succeeded, or the settings were saved again.

    A charge whose customer must act does not hold up the next one any longer; it can still be confirmed.
    """
    attempts = ATTEMPTS.find(tx, organization_id=organization_id)
    if attempts is not None:
        waits_for_customer = CHARGES.find(tx, id=attempts.charge_id, status="requires_action") is not None
        charge_id = None if waits_for_customer else attempts.charge_id
        not_before = min(attempts.not_before, tx.now + PAUSE)
        ATTEMPTS.changed(tx, attempts, charge_id=charge_id, declined=0, not_before=not_before)


def recent(tx: Tx, organization_id: str | None) -> list[Charge]:
    """The newest charges, of one organization or of all, in order from the oldest."""
    mine = {} if organization_id is None else {"organization_id": organization_id}
    return CHARGES.page(tx, None, SHOWN_CHARGES, **mine)[::-1]


def count(tx: Tx, organization_id: str) -> int:
    """How many charges there have been, in any state."""
    query = select(func.count()).where(CHARGES.table.c.organization_id == organization_id)
    return int(tx.connection.execute(query).scalar_one())


def require_within_cap(has: billing.Account, amount_cents: int) -> None:
    """Refuse with 400 an amount over the organization's cap."""
    if amount_cents > has.deposit_cap_cents:
        raise ApiError(
            400,
            f"amountCents: {amount_cents} is over the organization's cap of {has.deposit_cap_cents} a deposit.",
            "DEPOSIT_CAP_EXCEEDED",
        )


def _require_allowed(has: billing.Account, amount_cents: int) -> None:
    require_within_cap(has, amount_cents)
    if amount_cents < has.min_deposit_cents:
        raise ApiError(
            400,
            f"amountCents: {amount_cents} is below the smallest deposit, {has.min_deposit_cents}: "
            "1000, or the cost of three days of what runs.",
            "INSUFFICIENT_RUNWAY",
        )


def _status(behaviour: Mode, card: Card) -> Status:
    if behaviour == "decline":
        return "failed"
    return "requires_action" if card.requires_action else "processing"


def _notified(tx: Tx, item: DueItem) -> None:
    confirm(tx, item.subject)


HANDLERS: Final[Mapping[str, DueHandler]] = {NOTIFICATION: _notified}
