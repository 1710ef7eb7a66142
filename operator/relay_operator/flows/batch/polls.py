"""Reads the state of batches: one by one, or in one list for all of an account where that is cheaper."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from relay_client import Cloud, NotFound
from relay_client.operations import GET_BATCH
from relay_client.paging import batches
from relay_wire.batches import Batch

PAGE = 100
_FEW = 3
"""As many requests as a list may take are better spent on the batches themselves."""


@dataclass(slots=True)
class _Account:
    """Of one cloud connection: who was asked for lately, and the last list."""

    asked: dict[str, float] = field(default_factory=dict)
    begun: float = float("-inf")
    listing: "asyncio.Task[Mapping[str, Batch]] | None" = None


@dataclass(slots=True)
class BatchPolls:
    """Polls by cloud connection; a connection that ends takes what is known along. Seconds."""

    max_age: float
    memory: float
    """How long a batch counts as one that is asked for."""
    clock: Callable[[], float]
    _accounts: "WeakKeyDictionary[Cloud, _Account]" = field(default_factory=WeakKeyDictionary)

    async def look(self, cloud: Cloud, ids: Iterable[str], *, exact: bool) -> Mapping[str, Batch | None]:
        """Each batch, None where the cloud does not find it. Raises CloudError."""
        wanted, account, now = list(ids), self._accounts.setdefault(cloud, _Account()), self.clock()
        account.asked = {each: at for each, at in account.asked.items() if now - at < self.memory}
        account.asked |= dict.fromkeys(wanted, now)
        listed: Mapping[str, Batch] = {}
        if not exact and len(account.asked) > _FEW:
            listed = await self._recent(cloud, account)
        return {each: listed[each] if each in listed else await _one(cloud, each) for each in wanted}

    async def _recent(self, cloud: Cloud, account: _Account) -> Mapping[str, Batch]:
        task = account.listing
        failed = task is not None and task.done() and (task.cancelled() or task.exception() is not None)
        if task is None or failed or self.clock() - account.begun > self.max_age:
            task = account.listing = asyncio.create_task(_list(cloud, set(account.asked)))
            account.begun = self.clock()
        # Shielded: one caller's cancellation must not end what others wait for.
        return await asyncio.shield(task)


async def _list(cloud: Cloud, wanted: set[str]) -> Mapping[str, Batch]:
    """The newest batches, until all that are wanted were seen or asking for each would have been cheaper."""
    found: dict[str, Batch] = {}
    seen = 0
    async for batch in batches(cloud, limit=PAGE):
        seen += 1
        if batch.id in wanted:
            found[batch.id] = batch
        if len(found) == len(wanted) or seen >= PAGE * len(wanted):
            break
    return found


async def _one(cloud: Cloud, batch_id: str) -> Batch | None:
    try:
        return await cloud.call(GET_BATCH, id=batch_id)
    except NotFound:
        return None
