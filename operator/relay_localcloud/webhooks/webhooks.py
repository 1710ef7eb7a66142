"""Webhook subscriptions, and the recording of events for them (section 6); `deliveries.py` sends what is recorded."""

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue
from sqlalchemy import ForeignKeyConstraint, Index, insert

from relay_localcloud.kernel import tables
from relay_localcloud.kernel.instants import timestamp
from relay_localcloud.kernel.prepared import Prepared
from relay_localcloud.kernel.rows import Rows
from relay_localcloud.kernel.store import Tx

EVENT_TYPES = (
    "cluster.running",
    "cluster.degraded",
    "cluster.failed",
    "replica.healthy",
    "replica.unhealthy",
    "replica.terminated",
    "vm.running",
    "vm.stopped",
    "vm.terminated",
)
"""The events of section 6, as subscriptions may name them."""

ATTEMPT = "webhook.attempt"
"""The kind of the due items that are calls to receivers; their subject is the delivery, their lane the webhook."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """Where an organization's events go."""

    id: str
    organization_id: str
    name: str
    url: str
    events: tuple[str, ...]  # none: all
    secret_prefix: str
    signing_key: str  # lowercase hex SHA-256 of the secret, which itself is not kept
    created_at: int
    enabled: bool = True


WEBHOOKS: Final = Rows(
    Subscription,
    "webhooks",
    ForeignKeyConstraint(["organization_id"], ["organizations.id"]),
    Index("webhooks_of_organization", "organization_id", "created_at"),
    key=("id",),
)
_RECORD = Prepared(insert(tables.webhook_deliveries))


def emit(tx: Tx, organization_id: str, event_type: str, data: Mapping[str, JsonValue]) -> None:
    """Record an event once for every subscription of the organization that wants it; paused ones never get it."""
    enabled = WEBHOOKS.all(tx, organization_id=organization_id, enabled=True)
    subscribers = [each.id for each in enabled if not each.events or event_type in each.events]
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
