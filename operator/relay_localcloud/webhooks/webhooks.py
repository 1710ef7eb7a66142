"""Webhook subscriptions, their deliveries and attempts (section 6); `deliveries.py` makes the calls."""

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Final

from pydantic import JsonValue
from sqlalchemy import ForeignKeyConstraint, Index, bindparam, delete, select, text

from relay_localcloud.http.pages import Page
from relay_localcloud.kernel import due, tables
from relay_localcloud.kernel.due import DueHandler, DueItem
from relay_localcloud.kernel.instants import SECOND, timestamp
from relay_localcloud.kernel.prepared import Prepared
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
"""The types of events (section 6) that subscriptions may name."""

ATTEMPT = "webhook.attempt"
"""The kind of due items for calls to receivers; their subject is the delivery, their lane the webhook."""

FAN_OUT: Final = "webhook.fan_out"
"""The kind of due items for events in organizations with several subscriptions; their lane is the organization."""

FORGET: Final = "webhook.forget"
"""The kind of due items that delete the rest of a removed subscription, their subject."""
FORGOTTEN_AT_ONCE: Final = 500
_UNRECORDED: Final = Prepared(
    select(tables.due.c.id)
    .where(tables.due.c.lane == bindparam("organization"), tables.due.c.kind == FAN_OUT)
    .order_by(tables.due.c.due_at, tables.due.c.id)
    .limit(1)
)


@dataclass(frozen=True, slots=True)
class Subscription:
    """A webhook: where events of an organization are sent."""

    id: str
    organization_id: str
    name: str
    url: str
    events: tuple[str, ...]  # empty for all
    secret_prefix: str
    signing_key: str  # lowercase hex SHA-256 of the secret, which itself is not kept
    created_at: int
    enabled: bool = True
    toggled_at: int | None = None  # when it was last paused or resumed
    toggled_after: tuple[int, ...] | None = None  # the last due items before it was made, paused and resumed

    def took_event(self, item_id: int, at: int) -> bool:
        """Whether it existed and was not paused when an event happened at an instant and was put on the due-queue.

        The order of both decides, as several may happen at one instant. In a state that does not have the order, the
        instant does, as if it was toggled at most once since.
        """
        if self.toggled_after is None:
            return self.enabled == (at >= (self.toggled_at or self.created_at))
        return self.enabled == (sum(item_id <= each for each in self.toggled_after) % 2 == 0)


WEBHOOKS: Final = Rows(
    Subscription,
    "webhooks",
    ForeignKeyConstraint(["organization_id"], ["organizations.id"]),
    Index("webhooks_of_organization", "organization_id", "created_at"),
    key=("id",),
)


@dataclass(frozen=True, slots=True)
class Event:
    """An event in an organization; `body` is the JSON that its subscriptions get."""

    event_id: str
    organization_id: str
    event_type: str
    body: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """An event for one subscription."""

    id: str  # the X-Relay-Delivery header, the same on every attempt
    webhook_id: str
    event_id: str
    event_type: str
    body: str  # the exact bytes that are signed and sent
    held: bool = False  # by a `reorder` fault, until the next delivery was sent


DELIVERIES: Final = Rows(
    Delivery,
    "webhook_deliveries",
    Index("deliveries_of_webhook", "webhook_id"),
    Index("deliveries_held", "webhook_id", sqlite_where=text("held IS 1")),
    key=("id",),
)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A call to a receiver, and its outcome."""

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
    size: int = 0  # bytes on disk, including its event


ATTEMPTS: Final = Rows(
    Attempt,
    "webhook_attempts",
    Index("attempts_of_webhook", "webhook_id", "sequence"),
    Index("attempts_of_organization", "organization_id", "sequence"),
    Index("attempts_of_delivery", "delivery_id"),
)
_SHOWN: Final = ("id", "delivery_id", "event_type", "attempt", "status_code", "error", "requested_at", "duration_ms")


def emit(tx: Tx, organization_id: str, event_type: str, data: Mapping[str, JsonValue]) -> None:
    """Record an event for each of the organization's subscriptions that includes its type, except paused ones.

    If there are several subscriptions, `fan_out.py` does so later, since one request may cause a thousand events.
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


def toggles(tx: Tx, organization_id: str, before: Sequence[int] | None = None) -> tuple[int, ...]:
    """`Subscription.toggled_after` with one more, now; those before all events that are still to be recorded go."""
    unrecorded = _UNRECORDED.run(tx.connection, organization=organization_id).fetchone()
    kept = () if unrecorded is None else (each for each in before or () if each >= unrecorded[0])
    return (*kept, due.last_id(tx.connection))


def record(tx: Tx, event: Event, item_id: int | None = None) -> None:
    """Schedule an event that happens now for each subscription of its organization that takes it.

    `item_id` is that of its due item; None if it is recorded at once.
    """
    for each in WEBHOOKS.all(tx, organization_id=event.organization_id):
        takes = each.enabled if item_id is None else each.took_event(item_id, tx.now)
        if takes and (not each.events or event.event_type in each.events):
            delivery_id = tx.new_id("whd")
            sent = {"event_id": event.event_id, "event_type": event.event_type, "body": event.body}
            DELIVERIES.insert(tx, id=delivery_id, webhook_id=each.id, **sent)
            tx.schedule(tx.now, ATTEMPT, delivery_id, {"attempt": 1}, lane=each.id)


def remove(tx: Tx, webhook_id: str) -> None:
    """Delete a subscription: nothing more is sent, and its calls, deliveries and attempts are deleted step by step."""
    WEBHOOKS.remove(tx, id=webhook_id)
    tx.schedule(tx.now, FORGET, webhook_id)


def _forget(tx: Tx, item: DueItem) -> None:
    parts = (tables.due.c.lane, DELIVERIES.columns["webhook_id"], ATTEMPTS.columns["webhook_id"])
    gone = 0
    for subscription in parts:
        mine = select(tables.FIRST_COME).select_from(subscription.table).where(subscription == item.subject)
        some = tables.FIRST_COME.in_(mine.limit(FORGOTTEN_AT_ONCE))
        gone += tx.connection.execute(delete(subscription.table).where(some)).rowcount
    if gone:
        tx.schedule(tx.now + SECOND, FORGET, item.subject)


HANDLERS: Final[Mapping[str, DueHandler]] = {FORGET: _forget}


def page_of_attempts(tx: Tx, webhook_id: str, organization_id: str, page: Page) -> dict[str, object]:
    """One page of a subscription's attempts, newest first."""
    rows = partial(ATTEMPTS.page, tx, webhook_id=webhook_id)
    return page.newest(f"deliveries of {webhook_id}", organization_id, rows, lambda row: shown(row, *_SHOWN))


def attempts_after(tx: Tx, sequence: int, count: int, organization_id: str | None) -> list[Attempt]:
    """The next `count` attempts after a sequence number, oldest first; of one organization or of all."""
    whose = {} if organization_id is None else {"organization_id": organization_id}
    return ATTEMPTS.first(tx, count, ATTEMPTS.columns["sequence"] > sequence, **whose)


def shown_to_control(attempt: Attempt) -> dict[str, object]:
    """An attempt with its webhook, organization and fault, for the control interface."""
    return shown(attempt, *_SHOWN, "webhook_id", "organization_id", "fault_id")


def replay(tx: Tx, identifier: str) -> str | None:
    """Send a delivery again, identified by its own id or an attempt's; returns its id, or None if there is none."""
    attempt = ATTEMPTS.find(tx, id=identifier)
    delivery = DELIVERIES.find(tx, id=identifier if attempt is None else attempt.delivery_id)
    if delivery is None or WEBHOOKS.find(tx, id=delivery.webhook_id) is None:
        return None
    tx.schedule(tx.now, ATTEMPT, delivery.id, {"attempt": 1, "replay": True}, lane=delivery.webhook_id)
    return delivery.id


def signing_key(secret: str) -> str:
    """The HMAC key of a `whsec_` secret: the lowercase hex text of its SHA-256 (section 6)."""
    return hashlib.sha256(secret.encode()).hexdigest()


def signature(key: str, body: bytes) -> str:
    """The value of X-Relay-Signature for exactly these bytes (section 6)."""
    return "sha256=" + hmac.new(key.encode(), body, hashlib.sha256).hexdigest()
