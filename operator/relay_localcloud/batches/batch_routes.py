"""Batches (section 2, "Batch job"; their paths are assumed to be OpenAI's)."""

from pydantic_core import to_json

from relay_localcloud.batches import rows
from relay_localcloud.batches.listing import ListingRequest
from relay_localcloud.batches.rows import BATCHES, PHASE, schedule
from relay_localcloud.batches.states import Trigger
from relay_localcloud.batches.upload import needing_room
from relay_localcloud.cloud import Cloud, CurrentCloud
from relay_localcloud.http.errors import ApiError
from relay_localcloud.http.openapi import ASSUMED
from relay_localcloud.http.principal import ResourceId
from relay_localcloud.http.routing import Router
from relay_localcloud.inference.bodies import RecordsBody
from relay_localcloud.inference.callers import BatchCaller, PayingBatchCaller
from relay_localcloud.kernel.store import Tx
from relay_localcloud.quotas import quotas
from relay_wire.batches import Batch, BatchCreate, BatchList, BatchStatus
from relay_wire.files import INPUT
from relay_wire.inference import Family

router = Router("Batches")

MOST_METADATA, LONGEST_KEY, LONGEST_VALUE = 16, 64, 512


@router.post("/v1/batches", response_model=Batch, summary="Create a batch", openapi_extra=ASSUMED)
def create_batch(
    caller: PayingBatchCaller, body: RecordsBody[BatchCreate], cloud: CurrentCloud, tx: Tx
) -> dict[str, object]:
    """Takes the id of an uploaded file, or the records inline; validation finds their faults later."""
    endpoint = _endpoint(body)
    quotas.require(tx, caller.organization_id, {quotas.BATCHES: 1, quotas.ENDED_BATCHES: 1, quotas.FILE_BYTES: 1})
    input_file_id = body.input_file_id or _keep_inline(tx, cloud, caller.organization_id, body)
    file = rows.find_file(tx, caller.organization_id, input_file_id)
    if file.purpose != INPUT:
        raise ApiError(400, f"input_file_id: the purpose of this file is {file.purpose}, not {INPUT}.")
    batch = rows.make(tx, caller.organization_id, endpoint, input_file_id, body.metadata)
    schedule(tx, batch.id, tx.now + PHASE)
    return batch.as_json()


@router.get("/v1/batches", response_model=BatchList, summary="List batches", openapi_extra=ASSUMED)
def list_batches(caller: BatchCaller, listing: ListingRequest, tx: Tx) -> dict[str, object]:
    """Answers a page, newest first."""
    return listing.of(tx, BATCHES, caller.organization_id)


@router.get("/v1/batches/{id}", response_model=Batch, summary="Get a batch", openapi_extra=ASSUMED)
def get_batch(caller: BatchCaller, batch_id: ResourceId, tx: Tx) -> dict[str, object]:
    """Answers the batch with its counts and usage so far."""
    return rows.find(tx, caller.organization_id, batch_id).as_json()


@router.post("/v1/batches/{id}/cancel", response_model=Batch, summary="Cancel a batch", openapi_extra=ASSUMED)
def cancel_batch(caller: BatchCaller, batch_id: ResourceId, tx: Tx) -> dict[str, object]:
    """Finishes and counts the record under way, and keeps the results so far; 409 once it is too late."""
    batch = rows.find(tx, caller.organization_id, batch_id)
    under_way = 1 if batch.status is BatchStatus.IN_PROGRESS else 0
    if not rows.move(tx, batch, Trigger.CANCEL, records_wanted=batch.records_done + under_way):
        raise ApiError(409, f"The batch {batch_id!r} is {batch.status}: it cannot be cancelled any more.")
    schedule(tx, batch_id, tx.now + PHASE)
    return rows.find(tx, caller.organization_id, batch_id).as_json()


def _endpoint(body: BatchCreate) -> Family:
    if (not body.input_file_id) == (body.requests is None):
        raise ApiError(400, "Give either input_file_id or requests.")
    if body.requests is not None and not body.requests:
        raise ApiError(400, "requests: give at least one record.")
    metadata = body.metadata or {}
    if len(metadata) > MOST_METADATA:
        raise ApiError(400, f"metadata: at most {MOST_METADATA} entries.")
    if any(len(key) > LONGEST_KEY or len(value) > LONGEST_VALUE for key, value in metadata.items()):
        raise ApiError(400, f"metadata: a key has at most {LONGEST_KEY} characters, a value {LONGEST_VALUE}.")
    try:
        return Family(body.endpoint)
    except ValueError:
        raise ApiError(400, f"endpoint: it must be one of {', '.join(Family)}.") from None


def _keep_inline(tx: Tx, cloud: Cloud, organization_id: str, body: BatchCreate) -> str:
    """Store records that came inline as a file, so that they can be read again."""
    file_id = tx.new_id("file")
    content = b"".join(to_json(record) + b"\n" for record in body.requests or ())
    rows.require_room(tx, organization_id, len(content))
    with needing_room():
        cloud.files.write(file_id, content)
    rows.keep_file(tx, organization_id, file_id, "requests.jsonl", INPUT, len(content))
    return file_id
