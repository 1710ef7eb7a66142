"""Reading what was delivered, and sending it again."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import or_, select

from relay_localcloud.http.pages import Page
from relay_localcloud.kernel import tables
from relay_localcloud.kernel.instants import timestamp
from relay_localcloud.kernel.store import Tx
from relay_localcloud.webhooks.webhooks import ATTEMPT, WEBHOOKS


def page_of_webhook(tx: Tx, webhook_id: str, organization_id: str, page: Page) -> dict[str, object]:
    """One page of a subscription's attempts, newest first."""
    attempt = tables.webhook_attempts.c
    listing = f"deliveries of {webhook_id}"
    query = select(tables.webhook_attempts).where(attempt.webhook_id == webhook_id)
    place = page.after(listing, organization_id)
    if place is not None:
        query = query.where(attempt.sequence < place[0])
    rows = tx.connection.execute(query.order_by(attempt.sequence.desc()).limit(page.limit + 1)).mappings().all()
    return page.of(listing, organization_id, rows, _record, lambda row: [row["sequence"]])


def every(tx: Tx, organization_id: str | None) -> list[dict[str, object]]:
    """All attempts that are kept, oldest first, with whose they are."""
    attempt = tables.webhook_attempts.c
    query = select(tables.webhook_attempts).order_by(attempt.sequence)
    if organization_id is not None:
        query = query.where(attempt.organization_id == organization_id)
    return [
        {
            **_record(row),
            "webhookId": row["webhook_id"],
            "organizationId": row["organization_id"],
            "faultId": row["fault_id"],
        }
        for row in tx.connection.execute(query).mappings()
    ]


def replay(tx: Tx, identifier: str) -> str | None:
    """Send a delivery again, named by its own id or an attempt's; its id, or None where there is none."""
    delivery, attempt = tables.webhook_deliveries.c, tables.webhook_attempts.c
    named_by_attempt = select(attempt.delivery_id).where(attempt.id == identifier).scalar_subquery()
    query = select(delivery.id, delivery.webhook_id).join_from(
        tables.webhook_deliveries, WEBHOOKS.table, delivery.webhook_id == WEBHOOKS.table.c.id
    )
    row = tx.connection.execute(query.where(or_(delivery.id == identifier, delivery.id == named_by_attempt))).first()
    if row is None:
        return None
    tx.schedule(tx.now, ATTEMPT, row.id, {"attempt": 1, "replay": True}, lane=row.webhook_id)
    return str(row.id)


def _record(row: Mapping[Any, Any]) -> dict[str, object]:
    return {
        "id": row["id"],
        "deliveryId": row["delivery_id"],
        "eventType": row["event_type"],
        "attempt": row["attempt"],
        "statusCode": row["status_code"],
        "error": row["error"],
        "requestedAt": timestamp(row["requested_at"]),
        "durationMs": row["duration_ms"],
    }
