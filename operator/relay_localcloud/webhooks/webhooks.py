"""Webhook subscriptions, and the recording of events for them (section 6); `deliveries.py` sends what is recorded."""

import hashlib
import hmac
import json
from collections.abc import Mapping

from pydantic import JsonValue
from sqlalchemy import bindparam, insert, select

from relay_localcloud.kernel import tables
from relay_localcloud.kernel.instants import timestamp
from relay_localcloud.kernel.prepared import Prepared
from relay_localcloud.kernel.store import Tx

ATTEMPT = "webhook.attempt"
"""The kind of the due items that are calls to receivers; their subject is the delivery, their lane the webhook."""

_webhook = tables.webhooks.c
_ENABLED = Prepared(
    select(_webhook.id, _webhook.events)
    .where(_webhook.organization_id == bindparam("of_organization"), _webhook.enabled.is_(True))
    .order_by(tables.FIRST_COME)
)
_RECORD = Prepared(insert(tables.webhook_deliveries))


def emit(tx: Tx, organization_id: str, event_type: str, data: Mapping[str, JsonValue]) -> None:
    """Record an event once for every subscription of the organization that wants it; paused ones never get it."""
    enabled = _ENABLED.run(tx.connection, of_organization=organization_id).fetchall()
    subscribers = [webhook_id for webhook_id, events in enabled if _wants(events, event_type)]
    if not subscribers:
        return
    event_id = tx.new_id("evt")
    payload = {"id": event_id, "type": event_type, "created_at": timestamp(tx.now), "data": dict(data)}
    body = json.dumps(payload, separators=(",", ":"))
    for webhook_id in subscribers:
        delivery_id = tx.new_id("whd")
        _RECORD.run(
            tx.connection,
            id=delivery_id,
            webhook_id=webhook_id,
            event_id=event_id,
            event_type=event_type,
            body=body,
            held=False,
        )
        tx.schedule(tx.now, ATTEMPT, delivery_id, {"attempt": 1}, lane=webhook_id)


def signing_key(secret: str) -> str:
    """The HMAC key of a `whsec_` secret: the lowercase hex of its SHA-256, taken as text (section 6)."""
    return hashlib.sha256(secret.encode()).hexdigest()


def signature(key: str, body: bytes) -> str:
    """The X-Relay-Signature of exactly these bytes (section 6)."""
    return "sha256=" + hmac.new(key.encode(), body, hashlib.sha256).hexdigest()


def _wants(events: str, event_type: str) -> bool:
    wanted = json.loads(events)
    return not wanted or event_type in wanted
