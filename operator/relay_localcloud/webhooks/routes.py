"""Webhook subscriptions (section 4, "Webhook management"); all but create are assumed."""

import json

from sqlalchemy import RowMapping, delete, insert, update
from starlette.responses import Response

from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.http.bodies import Body, OptionalBody, answer, no_content
from relay_localcloud.http.errors import ApiError
from relay_localcloud.http.openapi import ASSUMED
from relay_localcloud.http.pages import PageRequest
from relay_localcloud.http.principal import OrganizationId, ResourceId, ToolingReader, ToolingWriter
from relay_localcloud.http.routing import Router
from relay_localcloud.http.web_addresses import web_address
from relay_localcloud.identity import credentials
from relay_localcloud.kernel import owned, tables
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


@router.post("/v1/orgs/{orgId}/webhooks/create", response_model=WebhookCreated, summary="Create a webhook")
async def create_webhook(
    caller: ToolingWriter,
    organization_id: OrganizationId,
    body: Body[WebhookCreate],
    cloud: CurrentCloud,
) -> Response:
    """Answers the signing secret, once. No events means all of them."""
    del caller
    _check(body)
    secret = credentials.new_secret(SECRET_PREFIX)
    with cloud.store.transaction() as tx:
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
    return answer(_with_secret(row, secret))


@router.get("/v1/orgs/{orgId}/webhooks", response_model=WebhookList, summary="List webhooks", openapi_extra=ASSUMED)
async def list_webhooks(caller: ToolingReader, organization_id: OrganizationId, cloud: CurrentCloud) -> Response:
    """Answers `{items}`, oldest first, without secrets."""
    del caller
    with cloud.store.transaction() as tx:
        rows = owned.every(tx, tables.webhooks, organization_id)
    return answer({"items": [_shown(row) for row in rows]})


@router.delete("/v1/orgs/{orgId}/webhooks/{id}", status_code=204, summary="Delete a webhook", openapi_extra=ASSUMED)
async def delete_webhook(
    caller: ToolingWriter, organization_id: OrganizationId, webhook_id: ResourceId, cloud: CurrentCloud
) -> Response:
    """Ends its retries as well."""
    del caller
    with cloud.store.transaction() as tx:
        _row(tx, organization_id, webhook_id)
        tx.cancel_lane(webhook_id)
        for table in (tables.webhook_deliveries, tables.webhook_attempts):
            tx.connection.execute(delete(table).where(table.c.webhook_id == webhook_id))
        tx.connection.execute(delete(tables.webhooks).where(tables.webhooks.c.id == webhook_id))
    return no_content()


@router.post(
    "/v1/orgs/{orgId}/webhooks/{id}/toggle", response_model=Webhook, summary="Pause or resume", openapi_extra=ASSUMED
)
async def toggle_webhook(
    caller: ToolingWriter,
    organization_id: OrganizationId,
    webhook_id: ResourceId,
    body: OptionalBody[WebhookToggle],
    cloud: CurrentCloud,
) -> Response:
    """Without `enabled` it flips. What happens while it is paused is not sent later; retries that fall due then are."""
    del caller
    with cloud.store.transaction() as tx:
        row = _row(tx, organization_id, webhook_id)
        enabled = not row["enabled"] if body.enabled is None else body.enabled
        tx.connection.execute(update(tables.webhooks).where(tables.webhooks.c.id == webhook_id).values(enabled=enabled))
        if enabled:
            deliveries.resume(tx, webhook_id)
        row = _row(tx, organization_id, webhook_id)
    return answer(_shown(row))


@router.post(
    "/v1/orgs/{orgId}/webhooks/{id}/regenerate-secret",
    response_model=WebhookCreated,
    summary="Roll the signing secret",
    openapi_extra=ASSUMED,
)
async def regenerate_secret(
    caller: ToolingWriter, organization_id: OrganizationId, webhook_id: ResourceId, cloud: CurrentCloud
) -> Response:
    """Answers as create does; what is sent from here on, retries included, is signed with the new secret."""
    del caller
    secret = credentials.new_secret(SECRET_PREFIX)
    with cloud.store.transaction() as tx:
        _row(tx, organization_id, webhook_id)
        rolled = {"secret_prefix": secret[:_SHOWN], "signing_key": signing_key(secret)}
        tx.connection.execute(update(tables.webhooks).where(tables.webhooks.c.id == webhook_id).values(**rolled))
        row = _row(tx, organization_id, webhook_id)
    return answer(_with_secret(row, secret))


@router.get(
    "/v1/orgs/{orgId}/webhooks/{id}/deliveries",
    response_model=PageOf[WebhookDelivery],
    summary="Recent attempts and response codes",
    openapi_extra=ASSUMED,
)
async def list_deliveries(
    caller: ToolingReader,
    organization_id: OrganizationId,
    webhook_id: ResourceId,
    page: PageRequest,
    cloud: CurrentCloud,
) -> Response:
    """Answers a page of attempts, newest first."""
    del caller
    with cloud.store.transaction() as tx:
        _row(tx, organization_id, webhook_id)
        shown = attempts.page_of_webhook(tx, webhook_id, organization_id, page)
    return answer(shown)


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
