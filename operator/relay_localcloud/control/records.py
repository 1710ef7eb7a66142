"""What the cloud did: `/_localcloud/requests`, `/audit`, `/deliveries` and `/outbox`."""

import json
from collections.abc import AsyncIterator
from typing import Annotated, Final

from pydantic import Field
from sqlalchemy import select
from starlette.responses import Response, StreamingResponse

from relay_localcloud.audit import entries
from relay_localcloud.cloud import Cloud, CurrentCloud
from relay_localcloud.http.arguments import Query
from relay_localcloud.http.bodies import Answer, answer
from relay_localcloud.http.errors import not_found
from relay_localcloud.http.principal import ResourceId
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel import tables
from relay_localcloud.kernel.instants import timestamp
from relay_localcloud.kernel.store import Tx
from relay_localcloud.webhooks import webhooks

router = Router()

_IN_A_PIECE: Final = 1_000
"""How many entries are read at once: other requests are served between two."""

OrganizationFilter = Annotated[str | None, Query("organizationId"), Field(description="Only this organization's.")]


@router.get("/requests", summary="The requests to the API")
async def list_requests(
    cloud: CurrentCloud,
    after: Annotated[int, Query(), Field(ge=0, le=2**62, description="Only those with a greater `seq`.")] = 0,
    organization_id: OrganizationFilter = None,
) -> Response:
    """Answers `{items}`, oldest first: the newest 50,000, of each organization at least its share.

    `status` is null where it was never acted on.
    """
    return answer({"items": [logged.as_json() for logged in cloud.requests.after(after, organization_id)]})


@router.get("/audit", summary="Who did what to which object")
def list_audit(
    tx: Tx,
    sequence: Annotated[int, Query("after"), Field(ge=0, le=2**62, description="Only those after this one.")] = 0,
    limit: Annotated[int, Query(), Field(ge=1, le=1000, description="At most so many.")] = 100,
    organization_id: OrganizationFilter = None,
) -> Answer:
    """Answers `{items}`, oldest first; the newest 10,000 of each organization, and of the platform, are kept."""
    return {"items": [entry.as_json() for entry in entries.after(tx, sequence, limit, organization_id)]}


@router.get(
    "/audit/export",
    responses={200: {"content": {"application/jsonl": {"schema": {"type": "string"}}}}},
    summary="The audit log as JSON lines",
)
async def export_audit(cloud: CurrentCloud, organization_id: OrganizationFilter = None) -> Response:
    """Answers the same, all of it, one JSON object on each line."""
    return StreamingResponse(_lines(cloud, organization_id), media_type="application/jsonl")


async def _lines(cloud: Cloud, organization_id: str | None) -> AsyncIterator[str]:
    last = 0
    while True:
        with cloud.store.transaction() as tx:
            found = entries.after(tx, last, _IN_A_PIECE, organization_id)
        if not found:
            return
        yield "".join(json.dumps(entry.as_json()) + "\n" for entry in found)
        last = found[-1].sequence


@router.get("/deliveries", summary="Every webhook attempt")
def list_deliveries(tx: Tx, organization_id: OrganizationFilter = None) -> Answer:
    """Answers `{items}`, oldest first: the newest 20,000, of each organization at least its share."""
    items = webhooks.every_attempt(tx, organization_id)
    return {"items": items}


@router.post("/deliveries/{id}/replay", summary="Send a delivery again")
def replay_delivery(delivery_id: ResourceId, tx: Tx) -> Answer:
    """Takes the id of a delivery or of one of its attempts; sends the same bytes under the same delivery id."""
    found = webhooks.replay(tx, delivery_id)
    if found is None:
        raise not_found("delivery", delivery_id)
    return {"deliveryId": found}


@router.get("/outbox", summary="E-mails the cloud would have sent")
def list_outbox(tx: Tx, organization_id: OrganizationFilter = None) -> Answer:
    """Answers `{items: [{at, organizationId, to, subject, body}]}`, oldest first."""
    query = select(tables.outbox).order_by(tables.outbox.c.sequence)
    if organization_id is not None:
        query = query.where(tables.outbox.c.organization_id == organization_id)
    items = [
        {
            "at": timestamp(row.at),
            "organizationId": row.organization_id,
            "to": row.recipient,
            "subject": row.subject,
            "body": row.body,
        }
        for row in tx.connection.execute(query)
    ]
    return {"items": items}
