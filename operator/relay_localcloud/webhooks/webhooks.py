"""Webhook subscriptions, the events recorded for them, and what was delivered (section 6); `deliveries.py` sends."""

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Final

from pydantic import JsonValue
from sqlalchemy import ForeignKeyConstraint, Index, Integer, delete, literal_column, select, text

from relay_localcloud.http.pages import Page
from relay_localcloud.kernel import tables
from relay_localcloud.kernel.due import DueHandler, DueItem
from relay_localcloud.kernel.instants import SECOND, timestamp
from relay_localcloud.kernel.rows import Rows, shown
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

FAN_OUT: Final = "webhook.fan_out"
"""The kind of the due items that are events for several subscriptions; their lane is the organization."""

FORGET: Final = "webhook.forget"
"""The kind of the due items that are subscriptions of which something is left."""
FORGOTTEN_AT_ONCE: Final = 500
_ROW: Final = literal_column("rowid", Integer)


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


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in an organization; `body` is what its subscriptions are sent."""

    event_id: str
    organization_id: str
    event_type: str
    body: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """An event for a subscription."""

    id: str  # the X-Relay-Delivery header, the same on every attempt
    webhook_id: str
    event_id: str
    event_type: str
    body: str  # the exact bytes that are signed and sent
    held: bool = False  # by a `reorder` fault, until the next one went out


DELIVERIES: Final = Rows(
    Delivery,
    "webhook_deliveries",
    Index("deliveries_of_webhook", "webhook_id"),
    Index("deliveries_held", "webhook_id", sqlite_where=text("held IS 1")),
    key=("id",),
)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A call to a receiver, and what became of it."""

    sequence: int
    id: str
    delivery_id: str
    webhook_id: str
    organization_id: str
    event_type: str
    attempt: int
    status_code: int | None
    error: str | None
    fault_id: str | None
    requested_at: int
    duration_ms: int
    size: int = 0  # bytes on disk, its event's included


ATTEMPTS: Final = Rows(
    Attempt,
    "webhook_attempts",
    Index("attempts_of_webhook", "webhook_id", "sequence"),
    Index("attempts_of_organization", "organization_id", "sequence"),
    Index("attempts_of_delivery", "delivery_id"),
)
_SHOWN: Final = ("id", "delivery_id", "event_type", "attempt", "status_code", "error", "requested_at", "duration_ms")


def emit(tx: Tx, organization_id: str, event_type: str, data: Mapping[str, JsonValue]) -> None:
    """Record an event once for every subscription of the organization that wants it; paused ones never get it.

    For several, `fan_out.py` does so, since a request may cause a thousand events.
    """
    some = WEBHOOKS.page(tx, None, 2, organization_id=organization_id, enabled=True)
    if not some:
        return
    event_id = tx.new_id("evt")
    payload = {"id": event_id, "type": event_type, "created_at": timestamp(tx.now), "data": dict(data)}
    event = Event(event_id, organization_id, event_type, json.dumps(payload, separators=(",", ":")))
    if len(some) == 1:
        record(tx, event)
    else:
        tx.schedule(tx.now, FAN_OUT, event_id, asdict(event), lane=organization_id)


def record(tx: Tx, event: Event) -> None:
    """Have an event sent to every subscription of its organization that wants it."""
    for each in WEBHOOKS.all(tx, organization_id=event.organization_id, enabled=True):
        if not each.events or event.event_type in each.events:
            delivery_id = tx.new_id("whd")
            sent = {"event_id": event.event_id, "event_type": event.event_type, "body": event.body}
            DELIVERIES.insert(tx, id=delivery_id, webhook_id=each.id, **sent)
            tx.schedule(tx.now, ATTEMPT, delivery_id, {"attempt": 1}, lane=each.id)


def remove(tx: Tx, webhook_id: str) -> None:
    """End a subscription; nothing is sent any more, and what was to be sent goes a part at a time."""
    WEBHOOKS.remove(tx, id=webhook_id)
    tx.schedule(tx.now, FORGET, webhook_id)


def _forget(tx: Tx, item: DueItem) -> None:
    parts = (tables.due.c.lane, DELIVERIES.columns["webhook_id"], ATTEMPTS.columns["webhook_id"])
    gone = 0
    for subscription in parts:
        some = select(_ROW).select_from(subscription.table).where(subscription == item.subject).limit(FORGOTTEN_AT_ONCE)
        gone += tx.connection.execute(delete(subscription.table).where(_ROW.in_(some))).rowcount
    if gone:
        tx.schedule(tx.now + SECOND, FORGET, item.subject)


HANDLERS: Final[Mapping[str, DueHandler]] = {FORGET: _forget}


def page_of_attempts(tx: Tx, webhook_id: str, organization_id: str, page: Page) -> dict[str, object]:
    """One page of a subscription's attempts, newest first."""
    rows = partial(ATTEMPTS.page, tx, webhook_id=webhook_id)
    return page.newest(f"deliveries of {webhook_id}", organization_id, rows, lambda row: shown(row, *_SHOWN))


def attempts_after(tx: Tx, sequence: int, count: int, organization_id: str | None) -> list[Attempt]:
    """So many attempts after one, oldest first; of all organizations unless one is given."""
    whose = {} if organization_id is None else {"organization_id": organization_id}
    return ATTEMPTS.first(tx, count, ATTEMPTS.columns["sequence"] > sequence, **whose)


def shown_to_control(attempt: Attempt) -> dict[str, object]:
    """An attempt, with whose it is."""
    return shown(attempt, *_SHOWN, "webhook_id", "organization_id", "fault_id")


def replay(tx: Tx, identifier: str) -> str | None:
    """Send a delivery again, named by its own id or an attempt's; its id, or None if there is none."""
    attempt = ATTEMPTS.find(tx, id=identifier)
    delivery = DELIVERIES.find(tx, id=identifier if attempt is None else attempt.delivery_id)
    if delivery is None or WEBHOOKS.find(tx, id=delivery.webhook_id) is None:
        return None
    tx.schedule(tx.now, ATTEMPT, delivery.id, {"attempt": 1, "replay": True}, lane=delivery.webhook_id)
    return delivery.id


def signing_key(secret: str) -> str:
    """The HMAC key of a `whsec_` secret: the lowercase hex of its SHA-256, taken as text (section 6)."""
    return hashlib.sha256(secret.encode()).hexdigest()


def signature(key: str, body: bytes) -> str:
    """The X-Relay-Signature of exactly these bytes (section 6)."""
    return "sha256=" + hmac.new(key.encode(), body, hashlib.sha256).hexdigest()
