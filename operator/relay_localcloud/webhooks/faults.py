"""The effects of faults on calls to webhook receivers: loss, delay, duplicates, reordering."""

from dataclasses import dataclass

from sqlalchemy import bindparam, select

from relay_localcloud.faults import faults
from relay_localcloud.faults.faults import Effect, Fault
from relay_localcloud.kernel import due
from relay_localcloud.kernel.due import DueItem
from relay_localcloud.kernel.instants import seconds
from relay_localcloud.kernel.prepared import Prepared
from relay_localcloud.kernel.store import Tx
from relay_localcloud.webhooks.webhooks import ATTEMPT, DELIVERIES


@dataclass(frozen=True)
class Interference:
    """How many copies of a call are sent, and the id of the fault that caused it."""

    copies: int = 1
    fault_id: str | None = None


UNDISTURBED = Interference()

_delivery = DELIVERIES.table.c
_HELD = Prepared(
    select(_delivery.id).where(
        _delivery.webhook_id == bindparam("of_webhook"), _delivery.held.is_(True), _delivery.id != bindparam("but")
    )
)


def interfere(tx: Tx, item: DueItem, organization_id: str) -> Interference | None:
    """The effect of a fault on this call; None if nothing is sent now. Only a delivery's first attempt meets faults."""
    if item.payload.get("attempt") != 1 or "faultId" in item.payload or "replay" in item.payload:
        return UNDISTURBED
    fault = faults.meet(tx, faults.WEBHOOK, organization_id)
    return UNDISTURBED if fault is None else _disturbed(tx, item, fault)


def _disturbed(tx: Tx, item: DueItem, fault: Fault) -> Interference | None:
    match fault.effect:
        case Effect("duplicate", int(extra)):
            return Interference(1 + extra, fault.id)
        case Effect("lose"):
            due.remove(tx.connection, item.id)
            DELIVERIES.remove(tx, id=item.subject)
        case Effect("delaySeconds", float(delay)):
            payload = {**item.payload, "faultId": fault.id}
            tx.schedule(item.due_at + seconds(delay), ATTEMPT, item.subject, payload, lane=item.lane)
        case Effect("reorder"):
            due.remove(tx.connection, item.id)
            DELIVERIES.change(tx, item.subject, held=True)
        case _:
            raise AssertionError(f"{fault.effect} is not an effect on webhooks")
    return None


def release_held(tx: Tx, webhook_id: str, delivery_id: str) -> None:
    """Schedule the deliveries that a `reorder` fault held back, since another one of the subscription was sent."""
    held = _HELD.run(tx.connection, of_webhook=webhook_id, but=delivery_id).fetchall()
    for (held_id,) in held:
        DELIVERIES.change(tx, held_id, held=False)
        tx.schedule(tx.now, ATTEMPT, held_id, {"attempt": 1, "faultId": "reorder"}, lane=webhook_id)
