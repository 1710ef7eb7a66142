"""What the cloud did: `/_localcloud/requests`, `/audit`, `/deliveries` and `/outbox`."""

import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Annotated, Any, Final

from pydantic import Field
from sqlalchemy import select
from starlette.responses import Response, StreamingResponse

from relay_localcloud.audit import entries
from relay_localcloud.cloud import Cloud, CurrentCloud
from relay_localcloud.http.arguments import Query
from relay_localcloud.http.bodies import Answer
from relay_localcloud.http.errors import ApiError
from relay_localcloud.http.principal import ResourceId
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel import tables
from relay_localcloud.kernel.instants import timestamp
from relay_localcloud.kernel.store import Tx
from relay_localcloud.webhooks import webhooks

router = Router()

_IN_A_PIECE: Final = 1_000
"""How many entries are read at once: other requests are served between two reads."""

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
    found = cloud.requests.after(after, organization_id)
    pieces = (found[at : at + _IN_A_PIECE] for at in range(0, len(found), _IN_A_PIECE))
    return _listed([logged.as_json() for logged in piece] for piece in pieces)


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
    for found in _pieces(cloud, lambda tx, last: entries.after(tx, last, _IN_A_PIECE, organization_id)):
        yield "".join(json.dumps(entry.as_json()) + "\n" for entry in found)


@router.get("/deliveries", summary="Every webhook attempt")
async def list_deliveries(cloud: CurrentCloud, organization_id: OrganizationFilter = None) -> Response:
    """Answers `{items}`, oldest first: the newest 20,000, of each organization at least its share."""
    pieces = _pieces(cloud, lambda tx, last: webhooks.attempts_after(tx, last, _IN_A_PIECE, organization_id))
    return _listed([webhooks.shown_to_control(attempt) for attempt in piece] for piece in pieces)


@router.post("/deliveries/{id}/replay", summary="Send a delivery again")
def replay_delivery(delivery_id: ResourceId, tx: Tx) -> Answer:
    """Takes the id of a delivery or of one of its attempts; sends the same bytes under the same delivery id."""
    found = webhooks.replay(tx, delivery_id)
    if found is None:
        raise ApiError(404, f"There is no delivery {delivery_id!r}.")
    return {"deliveryId": found}


@router.get("/outbox", summary="E-mails the cloud would have sent")
async def list_outbox(cloud: CurrentCloud, organization_id: OrganizationFilter = None) -> Response:
    """Answers `{items: [{at, organizationId, to, subject, body}]}`, oldest first: the newest 1,000 of each."""
    pieces = _pieces(cloud, lambda tx, last: _letters_after(tx, last, organization_id))
    return _listed([_letter(row) for row in piece] for piece in pieces)


def _letters_after(tx: Tx, sequence: int, organization_id: str | None) -> Sequence[Any]:
    letter = tables.outbox.c
    query = select(tables.outbox).where(letter.sequence > sequence).order_by(letter.sequence).limit(_IN_A_PIECE)
    if organization_id is not None:
        query = query.where(letter.organization_id == organization_id)
    return tx.connection.execute(query).all()


def _letter(row: Any) -> dict[str, object]:  # noqa: ANN401 - of the table
    return {
        "at": timestamp(row.at),
        "organizationId": row.organization_id,
        "to": row.recipient,
        "subject": row.subject,
        "body": row.body,
    }


def _pieces(cloud: Cloud, after: Callable[[Tx, int], Sequence[Any]]) -> Iterator[Sequence[Any]]:
    """Rows after a number, piece by piece, each read on demand."""
    last = 0
    while True:
        with cloud.store.transaction() as tx:
            found = after(tx, last)
        if not found:
            return
        yield found
        last = found[-1].sequence


def _listed(pieces: Iterator[Sequence[object]]) -> Response:
    """An answer `{items}`, read and sent a piece at a time."""
    return StreamingResponse(_items(pieces), media_type="application/json")


async def _items(pieces: Iterator[Sequence[object]]) -> AsyncIterator[str]:
    yield '{"items":['
    between = ""
    for piece in pieces:
        yield between + json.dumps(piece, separators=(",", ":"))[1:-1]
        between = ","
    yield "]}"
