"""Webhook subscriptions, and the recording of events for them (section 6); `deliveries.py` sends what is recorded."""

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pydantic import JsonValue
from sqlalchemy import Row, insert, select

from relay_localcloud import tables
from relay_localcloud.instants import timestamp

if TYPE_CHECKING:
    from relay_localcloud.store import Tx

ATTEMPT = "webhook.attempt"
"""The kind of the due items that are calls to receivers; their subject is the delivery, their lane the webhook."""


def emit(tx: "Tx", organization_id: str, event_type: str, data: Mapping[str, JsonValue]) -> None:
    """Record an event once for every subscription of the organization that wants it; paused ones never get it."""
    subscribers = [row for row in _enabled(tx, organization_id) if _wants(row.events, event_type)]
    if not subscribers:
        return
    event_id = tx.new_id("evt")
    payload = {"id": event_id, "type": event_type, "created_at": timestamp(tx.now), "data": dict(data)}
    body = json.dumps(payload, separators=(",", ":"))
    for subscriber in subscribers:
        delivery_id = tx.new_id("whd")
        values = {
            "id": delivery_id,
            "webhook_id": subscriber.id,
            "event_id": event_id,
            "event_type": event_type,
            "body": body,
        }
        tx.connection.execute(insert(tables.webhook_deliveries), values)
        tx.schedule(tx.now, ATTEMPT, delivery_id, {"attempt": 1}, lane=subscriber.id)


def signing_key(secret: str) -> str:
    """The HMAC key of a `whsec_` secret: the lowercase hex of its SHA-256, taken as text (section 6)."""
    return hashlib.sha256(secret.encode()).hexdigest()


def signature(key: str, body: bytes) -> str:
    """The X-Relay-Signature of exactly these bytes (section 6)."""
    return "sha256=" + hmac.new(key.encode(), body, hashlib.sha256).hexdigest()


def _enabled(tx: "Tx", organization_id: str) -> Sequence[Row[str, str]]:
    webhook = tables.webhooks.c
    query = select(webhook.id, webhook.events).where(
        webhook.organization_id == organization_id, webhook.enabled.is_(True)
    )
    return tx.connection.execute(query.order_by(webhook.created_at, webhook.id)).all()


def _wants(events: str, event_type: str) -> bool:
    wanted = json.loads(events)
    return not wanted or event_type in wanted
