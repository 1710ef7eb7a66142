"""Webhook subscriptions and their deliveries (section 2, "Webhook"); the payloads are in `relay_wire.events`."""

from pydantic import Field

from relay_wire.base import (
    Identifier,
    Lenient,
    ListOf,
    NonEmpty,
    Page,
    Received,
    ResourceId,
    Sent,
    SentList,
    ShownOnce,
    Whole,
)


class WebhookCreate(Sent):
    """Create webhook request; no events means all of them. The cloud decides which names and addresses it accepts."""

    name: NonEmpty
    url: NonEmpty
    events: SentList[str] = Field(default_factory=list)


class Webhook(Received):
    """A subscription as lists show it: the create response without its secret (assumed)."""

    id: ResourceId
    name: Lenient[str] = None
    url: Lenient[str] = None
    secret_prefix: Lenient[str] = None
    events: ListOf[str] = Field(default_factory=list)
    enabled: bool = True
    created_at: Lenient[str] = None


class WebhookCreated(Webhook):
    """The answer to a create; it shows the `whsec_` secret, once."""

    secret: ShownOnce


class RolledSecret(Received):
    """The answer to regenerate-secret; section 4 does not show it, so only its `secret` is used."""

    secret: ShownOnce


class WebhookToggle(Sent):
    """Pauses or resumes a subscription; assumed. Without `enabled`, it toggles."""

    enabled: bool | None = None


class WebhookDelivery(Received):
    """One attempt to deliver an event; its fields are assumed, since section 6 does not show them."""

    id: Identifier
    delivery_id: Lenient[str] = None  # the X-Relay-Delivery header, the same on retries
    event_type: Lenient[str] = None
    attempt: Lenient[Whole] = None
    status_code: Lenient[Whole] = None
    error: Lenient[str] = None
    requested_at: Lenient[str] = None
    duration_ms: Lenient[Whole] = None


WebhookList = Page[Webhook]
WebhookDeliveryList = Page[WebhookDelivery]
