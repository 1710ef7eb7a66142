"""Webhook subscriptions (section 4, "Webhook management"); all operations except create are assumed."""

from functools import partial

from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.http.bodies import Answer, Body, OptionalBody
from relay_localcloud.http.errors import ApiError, not_found
from relay_localcloud.http.names import require_name
from relay_localcloud.http.openapi import ASSUMED
from relay_localcloud.http.pages import PageRequest
from relay_localcloud.http.principal import OrganizationId, ResourceId, ToolingReader, ToolingWriter
from relay_localcloud.http.routing import Router
from relay_localcloud.http.web_addresses import web_address
from relay_localcloud.identity import credentials
from relay_localcloud.kernel.rows import shown
from relay_localcloud.kernel.store import Tx
from relay_localcloud.quotas import quotas
from relay_localcloud.webhooks import deliveries, webhooks
from relay_localcloud.webhooks.webhooks import EVENT_TYPES, WEBHOOKS, Subscription, signing_key
from relay_wire.base import Page as PageOf
from relay_wire.webhooks import (
    Webhook,
    WebhookCreate,
    WebhookCreated,
    WebhookDelivery,
    WebhookList,
    WebhookToggle,
)

router = Router("Webhook management")

SECRET_PREFIX = "whsec_"  # noqa: S105 - public
LONGEST_URL = 2000
_SHOWN = 12


@router.post("/v1/orgs/{orgId}/webhooks/create", summary="Create a webhook")
def create_webhook(
    _: ToolingWriter, organization_id: OrganizationId, body: Body[WebhookCreate], cloud: CurrentCloud, tx: Tx
) -> WebhookCreated:
    """Answers the signing secret, which is shown only once. An empty `events` subscribes to all events."""
    _check(body)
    quotas.require(tx, organization_id, {quotas.WEBHOOKS: 1})
    secret = credentials.new_secret(SECRET_PREFIX)
    row = WEBHOOKS.insert(
        tx,
        id=tx.new_id("wh"),
        organization_id=organization_id,
        name=body.name,
        url=body.url,
        events=tuple(dict.fromkeys(body.events)),
        **_of_secret(secret),
        created_at=tx.now,
        toggled_after=webhooks.toggles(tx, organization_id),
    )
    tx.after_commit(cloud.deliveries.expect)
    return _with_secret(row, secret)


@router.get("/v1/orgs/{orgId}/webhooks", response_model=WebhookList, summary="List webhooks", openapi_extra=ASSUMED)
def list_webhooks(_: ToolingReader, organization_id: OrganizationId, page: PageRequest, tx: Tx) -> Answer:
    """Answers a page, oldest first, without secrets."""
    rows = partial(WEBHOOKS.after, tx, organization_id=organization_id)
    return page.oldest("webhooks", organization_id, rows, _shown)


@router.delete("/v1/orgs/{orgId}/webhooks/{id}", summary="Delete a webhook", openapi_extra=ASSUMED)
def delete_webhook(_: ToolingWriter, organization_id: OrganizationId, webhook_id: ResourceId, tx: Tx) -> None:
    """Deletes the webhook and ends its retries."""
    _row(tx, organization_id, webhook_id)
    webhooks.remove(tx, webhook_id)


@router.post("/v1/orgs/{orgId}/webhooks/{id}/toggle", summary="Pause or resume", openapi_extra=ASSUMED)
def toggle_webhook(
    _: ToolingWriter, organization_id: OrganizationId, webhook_id: ResourceId, body: OptionalBody[WebhookToggle], tx: Tx
) -> Webhook:
    """Without `enabled`, toggles. Events during a pause are never sent; calls that fall due then are sent on resume."""
    row = _row(tx, organization_id, webhook_id)
    return _shown(deliveries.toggle(tx, row, enabled=not row.enabled if body.enabled is None else body.enabled))


@router.post(
    "/v1/orgs/{orgId}/webhooks/{id}/regenerate-secret", summary="Roll the signing secret", openapi_extra=ASSUMED
)
def regenerate_secret(
    _: ToolingWriter, organization_id: OrganizationId, webhook_id: ResourceId, tx: Tx
) -> WebhookCreated:
    """Answers as create does; calls from now on, retries included, are signed with the new secret."""
    secret = credentials.new_secret(SECRET_PREFIX)
    row = WEBHOOKS.changed(tx, _row(tx, organization_id, webhook_id), **_of_secret(secret))
    return _with_secret(row, secret)


@router.get(
    "/v1/orgs/{orgId}/webhooks/{id}/deliveries",
    response_model=PageOf[WebhookDelivery],
    summary="Recent attempts and response codes",
    openapi_extra=ASSUMED,
)
def list_deliveries(
    _: ToolingReader, organization_id: OrganizationId, webhook_id: ResourceId, page: PageRequest, tx: Tx
) -> Answer:
    """Answers a page of attempts, newest first."""
    _row(tx, organization_id, webhook_id)
    return webhooks.page_of_attempts(tx, webhook_id, organization_id, page)


def _check(body: WebhookCreate) -> None:
    require_name(body.name)
    if len(body.url) > LONGEST_URL or web_address(body.url) is None:
        raise ApiError(400, "url: give an http or https address, such as https://example.test/webhooks.")
    unknown = [event for event in body.events if event not in EVENT_TYPES]
    if unknown:
        raise ApiError(400, f"events: there is no event {unknown[0]!r}; there are {', '.join(EVENT_TYPES)}.")


def _row(tx: Tx, organization_id: str, webhook_id: str) -> Subscription:
    row = WEBHOOKS.find(tx, id=webhook_id, organization_id=organization_id)
    if row is None:
        raise not_found("webhook", webhook_id)
    return row


def _of_secret(secret: str) -> dict[str, str]:
    """The columns that are kept of a signing secret: its beginning and its HMAC key."""
    return {"secret_prefix": secret[:_SHOWN], "signing_key": signing_key(secret)}


def _shown(row: Subscription) -> Webhook:
    return Webhook.model_validate(shown(row))


def _with_secret(row: Subscription, secret: str) -> WebhookCreated:
    return WebhookCreated.model_validate({**shown(row), "secret": secret})
