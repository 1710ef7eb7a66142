"""Batches in the cloud without their objects, recognized by the tag in their metadata."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from pydantic import ValidationError

from relay_client import Cloud, Conflict
from relay_client.operations import CANCEL_BATCH, GET_BATCH, LIST_BATCHES
from relay_operator.api.inferencebatch import DEFINITION, InferenceBatch
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.cache import Cache
from relay_operator.engine.entry import Entry
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.batch.absence import unless_absent
from relay_operator.flows.batch.names import TAG, PartTag
from relay_operator.flows.batch.polls import PAGE
from relay_wire.batches import FINAL, Batch


@dataclass(frozen=True, slots=True)
class BatchTraces:
    """The `Traces` of batches; a name is the text of a tag."""

    cache: Cache

    async def living(self, cloud: Cloud, unclaimed: UnclaimedIds) -> Mapping[str, str]:
        """The newest batches only, since a late create is among them."""
        page = await cloud.call(LIST_BATCHES, query={"limit": PAGE}, large=True)
        return {batch.id: name for batch in page.data[:PAGE] if (name := _name(batch))}

    async def name_of(self, cloud: Cloud, cloud_id: str) -> str | None:
        batch = await unless_absent(cloud, GET_BATCH, cloud_id, large=True)
        return None if batch is None else _name(batch)

    async def end(self, cloud: Cloud, cloud_id: str) -> None:
        with suppress(Conflict):
            await unless_absent(cloud, CANCEL_BATCH, cloud_id)

    async def is_restored(self, cloud: Cloud, giver: Entry, name: str) -> bool:
        """False: the object looks for what it does not record."""
        return False

    def giver(self, name: str) -> ObjectKey | None:
        givers = self.cache.with_token(name.partition("/")[0])
        return min((key for key in givers if key.kind == DEFINITION.kind), default=None)

    def ours(self, name: str) -> bool:
        """Whether an object gave the name; any other batch ends within a day, the cloud's completion window."""
        return self.giver(name) is not None

    def is_searched(self, name: str, giver: Entry) -> bool:
        """Whether the object records no batch for this part, and so looks for one; True if the object is unreadable.

        It searches for a create without an answer, and after a restore for all its batches before it creates another.
        """
        tag, recorded = PartTag.read(name), _recorded(giver.body)
        return recorded is None or (tag is not None and (tag.round, tag.part) not in recorded)


@lru_cache(maxsize=4)
def _recorded(body: bytes) -> frozenset[tuple[int, int]] | None:
    """Rounds and parts with a batch; None if the object is unreadable. A list has many of one object."""
    try:
        batch = InferenceBatch.model_validate_json(body)
    except ValidationError:
        return None
    return frozenset((part.round, part.part) for part in batch.status.parts or () if part.batch_id)


def _name(batch: Batch) -> str | None:
    """The tag's text; None if the batch is final."""
    return None if batch.status in FINAL else (batch.metadata or {}).get(TAG, "")
