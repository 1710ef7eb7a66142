"""Webhook subscriptions (section 4, "Webhook management"); all but create are assumed."""

import json

from sqlalchemy import RowMapping, delete, insert, update

from relay_localcloud.http import owned
from relay_localcloud.http.bodies import Answer, Body, OptionalBody
from relay_localcloud.http.errors import ApiError
from relay_localcloud.http.openapi import ASSUMED
from relay_localcloud.http.pages import PageRequest
from relay_localcloud.http.principal import OrganizationId, ResourceId, ToolingReader, ToolingWriter
from relay_localcloud.http.routing import Router
from relay_localcloud.http.web_addresses import web_address
from relay_localcloud.identity import credentials
from relay_localcloud.kernel import tables
from relay_localcloud.kernel.instants import timestamp
from relay_localcloud.kernel.store import Tx
from relay_localcloud.webhooks import attempts, deliveries
from relay_localcloud.webhooks.events import EVENT_TYPES
from relay_localcloud.webhooks.webhooks import signing_key
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
LONGEST_NAME = 200
LONGEST_URL = 2000
_SHOWN = 12


@router.post("/v1/orgs/{orgId}/webhooks/create", summary="Create a webhook")
def create_webhook(
    _: ToolingWriter, organization_id: OrganizationId, body: Body[WebhookCreate], tx: Tx
) -> WebhookCreated:
    """Answers the signing secret, once. No events means all of them."""
    _check(body)
    secret = credentials.new_secret(SECRET_PREFIX)
    values = {
        "id": tx.new_id("wh"),
        "organization_id": organization_id,
        "name": body.name,
        "url": body.url,
        "events": json.dumps(list(dict.fromkeys(body.events))),
        "secret_prefix": secret[:_SHOWN],
        "signing_key": signing_key(secret),
        "enabled": True,
        "created_at": tx.now,
    }
    tx.connection.execute(insert(tables.webhooks), values)
    row = _row(tx, organization_id, str(values["id"]))
    return _with_secret(row, secret)


@router.get("/v1/orgs/{orgId}/webhooks", response_model=WebhookList, summary="List webhooks", openapi_extra=ASSUMED)
def list_webhooks(_: ToolingReader, organization_id: OrganizationId, tx: Tx) -> Answer:
    """Answers `{items}`, oldest first, without secrets."""
    return {"items": [_shown(row) for row in owned.every(tx, tables.webhooks, organization_id)]}


@router.delete("/v1/orgs/{orgId}/webhooks/{id}", summary="Delete a webhook", openapi_extra=ASSUMED)
def delete_webhook(_: ToolingWriter, organization_id: OrganizationId, webhook_id: ResourceId, tx: Tx) -> None:
    """Ends its retries as well."""
    _row(tx, organization_id, webhook_id)
    tx.cancel_lane(webhook_id)
    for table in (tables.webhook_deliveries, tables.webhook_attempts):
        tx.connection.execute(delete(table).where(table.c.webhook_id == webhook_id))
    tx.connection.execute(delete(tables.webhooks).where(tables.webhooks.c.id == webhook_id))


@router.post("/v1/orgs/{orgId}/webhooks/{id}/toggle", summary="Pause or resume", openapi_extra=ASSUMED)
def toggle_webhook(
    _: ToolingWriter, organization_id: OrganizationId, webhook_id: ResourceId, body: OptionalBody[WebhookToggle], tx: Tx
) -> Webhook:
    """Without `enabled` it flips. What happens while it is paused is not sent later; retries that fall due then are."""
    row = _row(tx, organization_id, webhook_id)
    enabled = not row["enabled"] if body.enabled is None else body.enabled
    tx.connection.execute(update(tables.webhooks).where(tables.webhooks.c.id == webhook_id).values(enabled=enabled))
    if enabled:
        deliveries.resume(tx, webhook_id)
    return _shown(_row(tx, organization_id, webhook_id))


@router.post(
    "/v1/orgs/{orgId}/webhooks/{id}/regenerate-secret", summary="Roll the signing secret", openapi_extra=ASSUMED
)
def regenerate_secret(
    _: ToolingWriter, organization_id: OrganizationId, webhook_id: ResourceId, tx: Tx
) -> WebhookCreated:
    """Answers as create does; what is sent from here on, retries included, is signed with the new secret."""
    secret = credentials.new_secret(SECRET_PREFIX)
    _row(tx, organization_id, webhook_id)
    rolled = {"secret_prefix": secret[:_SHOWN], "signing_key": signing_key(secret)}
    tx.connection.execute(update(tables.webhooks).where(tables.webhooks.c.id == webhook_id).values(**rolled))
    row = _row(tx, organization_id, webhook_id)
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
    return attempts.page_of_webhook(tx, webhook_id, organization_id, page)


def _check(body: WebhookCreate) -> None:
    if len(body.name) > LONGEST_NAME:
        raise ApiError(400, f"name: at most {LONGEST_NAME} characters.")
    if len(body.url) > LONGEST_URL or web_address(body.url) is None:
        raise ApiError(400, "url: give an http or https address, such as https://example.test/webhooks.")
    unknown = [event for event in body.events if event not in EVENT_TYPES]
    if unknown:
        raise ApiError(400, f"events: there is no event {unknown[0]!r}; there are {', '.join(EVENT_TYPES)}.")


def _row(tx: Tx, organization_id: str, webhook_id: str) -> RowMapping:
    return owned.get(tx, tables.webhooks, organization_id, webhook_id, "webhook")


def _fields(row: RowMapping) -> dict[str, object]:
    return {
        "id": row["id"],
        "name": row["name"],
        "url": row["url"],
        "secretPrefix": row["secret_prefix"],
        "events": json.loads(row["events"]),
        "enabled": row["enabled"],
        "createdAt": timestamp(row["created_at"]),
    }


def _shown(row: RowMapping) -> Webhook:
    return Webhook.model_validate(_fields(row))


def _with_secret(row: RowMapping, secret: str) -> WebhookCreated:
    return WebhookCreated.model_validate({**_fields(row), "secret": secret})
