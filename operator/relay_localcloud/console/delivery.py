"""The page of one webhook delivery: its event, its receiver, and the outcome of each attempt."""

import json
from typing import Final

from sqlalchemy import select

from relay_localcloud.console.reading import Reading
from relay_localcloud.console.wording import public_part
from relay_localcloud.http.errors import ApiError
from relay_localcloud.kernel import tables
from relay_localcloud.webhooks.webhooks import ATTEMPT, ATTEMPTS, DELIVERIES, WEBHOOKS

_ATTEMPTS_SHOWN: Final = 20


def content(reading: Reading) -> dict[str, object]:
    """The delivery with the id in the request, its own or an attempt's; ApiError 404 if there is none."""
    tx, identifier = reading.tx, reading.requested.word("id") or ""
    named = ATTEMPTS.find(tx, id=identifier)
    delivery = DELIVERIES.find(tx, id=identifier if named is None else named.delivery_id)
    if delivery is None:
        raise ApiError(404, f"There is no delivery {identifier!r}: it is no longer kept, or never existed.")
    webhook = WEBHOOKS.find(tx, id=delivery.webhook_id)
    attempt, item = ATTEMPTS.table.c, tables.due.c
    made = select(ATTEMPTS.table).where(attempt.webhook_id == delivery.webhook_id, attempt.delivery_id == delivery.id)
    waiting = select(item.due_at).where(item.kind == ATTEMPT, item.subject == delivery.id)
    return {
        "title": delivery.event_type,
        "delivery": delivery,
        "organization_id": None if webhook is None else webhook.organization_id,
        "subscription": None if webhook is None else webhook.name,
        "receiver": None if webhook is None else public_part(webhook.url),
        "next_at": tx.connection.execute(waiting).scalar_one_or_none(),
        "payload": json.dumps(json.loads(delivery.body), indent=2, ensure_ascii=False),
        "attempts": tx.connection.execute(made.order_by(attempt.sequence.desc()).limit(_ATTEMPTS_SHOWN))
        .mappings()
        .all(),
    }
