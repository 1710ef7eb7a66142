"""Batches in the cloud that were created for an object, recognized by the tag in their metadata."""

from collections.abc import AsyncIterator, Iterable
from datetime import datetime

from relay_client import Cloud, Unreadable
from relay_client.list_room import ListTurn
from relay_client.operations import GET_BATCH, LIST_BATCHES, AnyOperation
from relay_client.paging import batches, gathered
from relay_operator.api.inferencebatch import InferenceBatch, PartStatus
from relay_operator.flows.batch.names import OBJECT, PartTag, object_of
from relay_operator.flows.batch.polls import PAGE
from relay_wire.batches import FINAL, Batch


async def tagged(
    cloud: Cloud, obj: InferenceBatch, token: str, parts: Iterable[PartStatus] = (), since: datetime | None = None
) -> list[Batch]:
    """The object's batches created with this token, and those of the parts' files without metadata. Raises CloudError.

    Reads the whole list, or, newest first, until a batch was created before `since`.
    """
    files = {part.input_file_id for part in parts} - {None}

    def may_be(batch: Batch) -> bool:
        if batch.metadata is None:
            return batch.input_file_id in files
        return PartTag.of(batch, token) is not None and _is_own(batch, obj)

    async def own_batches(turn: ListTurn) -> AsyncIterator[Batch]:
        async for batch in batches(cloud, turn, limit=PAGE):
            if since is not None and 0 < (batch.created_at or 0) < since.timestamp():
                return
            if may_be(batch):
                yield batch

    return await gathered(cloud, LIST_BATCHES, own_batches)


async def whole(cloud: Cloud, obj: InferenceBatch, rows: Iterable[Batch]) -> list[Batch]:
    """The object's batches of these rows; one without metadata is read alone. Raises CloudError."""
    found: list[Batch] = []
    for row in rows:
        batch = row if row.metadata is not None else await cloud.call(GET_BATCH, id=row.id, large=True)
        if batch.metadata is None:
            told = f"the list shows {row.id}, of the same file, without its metadata: it may be what was created"
            raise Unreadable(LIST_BATCHES.name, told)
        found.append(batch)
    return [batch for batch in found if _is_own(batch, obj)]


def of_part(part: PartStatus, rows: Iterable[Batch], token: str) -> Batch | None:
    """The first of these batches that was created for the part."""
    return next((batch for batch in rows if place_of(batch, token) == (part.round, part.part)), None)


def place_of(batch: Batch, token: str) -> tuple[int, int] | None:
    """The round and part for which the batch was created; None if it was created with another token."""
    tag = PartTag.of(batch, token)
    return None if tag is None else (tag.round, tag.part)


def is_about(part: PartStatus, batch: Batch, token: str) -> bool:
    """Whether an answer is about the part's batch; one that tells its end has to show its metadata."""
    unnamed = batch.metadata is None and batch.status not in FINAL
    return unnamed or place_of(batch, token) == (part.round, part.part)


def unbelieved(batch: Batch, operation: AnyOperation) -> Unreadable:
    """The error of an answer that is about another batch."""
    told = f"the answer about {batch.id} is not believed: its metadata shows another batch"
    return Unreadable(operation.name, told)


def _is_own(batch: Batch, obj: InferenceBatch) -> bool:
    """Whether the batch's metadata names this object, or none.

    Anybody can write an intent by hand, with the token of another object's batches.
    """
    own = object_of(obj.metadata)
    return (batch.metadata or {}).get(OBJECT, own) == own
