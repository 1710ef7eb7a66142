"""Reads the state of batches: one by one, or, if that is cheaper, with one list for the whole account."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from relay_client import Cloud, CloudError, CloudUnavailable, Unreadable
from relay_client.list_room import ListTurn
from relay_client.operations import GET_BATCH, LIST_BATCHES
from relay_client.paging import batches, gathered
from relay_operator.api.inferencebatch import SHOWN_PROBLEMS
from relay_operator.engine.shared_lists import SharedLists
from relay_operator.flows.batch.absence import unless_absent
from relay_operator.flows.batch.names import OBJECT, TAG
from relay_wire.batches import FINAL, Batch

PAGE = 100
_FEW = 3
"""Up to this many batches are read one by one, since a list may take as many requests."""
_MOST_FAILED = 3
"""The most reads of one look that may fail: after that many, it is the cloud that cannot be read."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look at several batches found."""

    found: Mapping[str, Batch | None]
    """Those that could be read, by id; None if the cloud does not find the batch."""
    error: CloudError | None = None
    """Why another one could not be read; None if all could."""


@dataclass(slots=True)
class BatchPolls:
    """Polls by cloud connection; what is known of a connection is dropped with it. Times are in seconds."""

    lists: SharedLists[Mapping[str, Batch]]
    memory: float
    """How long a batch counts as wanted after a look."""
    clock: Callable[[], float]
    _asked: "WeakKeyDictionary[Cloud, dict[str, float]]" = field(default_factory=WeakKeyDictionary)
    """When each batch was last looked at."""

    async def look(self, cloud: Cloud, ids: Iterable[str], *, exact: bool) -> Looked:
        """Look at each batch. Raises CloudError if no batch could be read, or several could not."""
        wanted, now = list(ids), self.clock()
        known = {each: at for each, at in self._asked.get(cloud, {}).items() if now - at < self.memory}
        asked = self._asked[cloud] = known | dict.fromkeys(wanted, now)
        listed: Mapping[str, Batch] = {}
        if not exact and len(asked) > _FEW:
            rows = await self.lists.recent(cloud, lambda: _list(cloud, set(asked)))
            # The end is read once more: nobody looks again, and a row may lack the files with what was paid for.
            listed = {each: row for each, row in rows.items() if row.status not in FINAL}
        found, failed = dict[str, Batch | None](), list[CloudError]()
        for each in wanted:
            try:
                found[each] = listed.get(each) or await _read(cloud, each)
            except (CloudUnavailable, Unreadable) as error:
                failed.append(error)
                if len(failed) == min(_MOST_FAILED, len(wanted)):
                    raise
        return Looked(found, failed[0] if failed else None)


async def _read(cloud: Cloud, batch_id: str) -> Batch | None:
    """One batch, of its problems those that are shown, of its metadata what is ours: a pass reads up to 128 batches."""
    batch = await unless_absent(cloud, GET_BATCH, batch_id, large=True)
    if batch is None:
        return None
    few: dict[str, object] = {}
    if batch.errors is not None:
        few["errors"] = batch.errors.model_copy(update={"data": batch.errors.data[:SHOWN_PROBLEMS]})
    if batch.metadata is not None:
        few["metadata"] = {name: batch.metadata[name] for name in (OBJECT, TAG) if name in batch.metadata}
    return batch.model_copy(update=few)


async def _list(cloud: Cloud, wanted: set[str]) -> Mapping[str, Batch]:
    """List the newest batches, until all wanted ones were seen or single reads would have been cheaper."""
    found = await gathered(cloud, LIST_BATCHES, lambda turn: _newest(cloud, wanted, turn))
    return {batch.id: batch for batch in found}


async def _newest(cloud: Cloud, wanted: set[str], turn: ListTurn) -> AsyncIterator[Batch]:
    missing, seen = set(wanted), 0
    async for batch in batches(cloud, turn, limit=PAGE):
        seen += 1
        if batch.id in missing:
            missing.discard(batch.id)
            yield batch
        if not missing or seen >= PAGE * len(wanted):
            return
