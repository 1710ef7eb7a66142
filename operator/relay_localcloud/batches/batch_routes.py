"""Batches (section 2, "Batch job"; their paths are assumed to be OpenAI's)."""

from collections.abc import Iterable, Mapping
from typing import Any

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
from relay_localcloud.http.routing import Ending, Router
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
async def create_batch(caller: PayingBatchCaller, body: RecordsBody[BatchCreate], cloud: CurrentCloud) -> Ending:
    """Takes the id of an uploaded file, or the records inline; validation finds their faults later."""
    endpoint, organization_id = _endpoint(body), caller.organization_id
    inline = None if body.requests is None else await _written(cloud, organization_id, body.requests)

    def create(tx: Tx) -> dict[str, object]:
        _require_quotas(tx, organization_id)
        input_file_id = body.input_file_id if inline is None else _keep_inline(tx, organization_id, *inline)
        file = rows.find_file(tx, organization_id, input_file_id or "")
        if file.purpose != INPUT:
            raise ApiError(400, f"input_file_id: the purpose of this file is {file.purpose}, not {INPUT}.")
        batch = rows.make(tx, organization_id, endpoint, file.id, body.metadata)
        schedule(tx, batch.id, tx.now + PHASE)
        return batch.as_json()

    return Ending(create, cloud.files.kept(None if inline is None else inline[0]))


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


def _require_quotas(tx: Tx, organization_id: str) -> None:
    quotas.require(tx, organization_id, {quotas.BATCHES: 1, quotas.ENDED_BATCHES: 1, quotas.FILE_BYTES: 1})


async def _written(cloud: Cloud, organization_id: str, records: Iterable[Mapping[str, Any]]) -> tuple[str, int]:
    """Write records that came inline as a content, so that they can be read again; returns its id and size."""
    with cloud.store.transaction() as tx:
        _require_quotas(tx, organization_id)
        file_id = tx.new_id("file")
    with needing_room():
        return file_id, await cloud.files.write(file_id, map(to_json, records))


def _keep_inline(tx: Tx, organization_id: str, file_id: str, size: int) -> str:
    """Create the file of a content that has been written."""
    rows.require_room(tx, organization_id, size)
    return rows.keep_file(tx, organization_id, file_id, "requests.jsonl", INPUT, size).id
