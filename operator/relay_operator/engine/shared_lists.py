"""One list of an account at a time, shared by all who ask about the same time."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from relay_client import Cloud

ListT = TypeVar("ListT")


@dataclass(slots=True)
class SharedLists(Generic[ListT]):
    """Lists by cloud connection; a connection that ends takes its list along. Monotonic seconds."""

    max_age: float
    clock: Callable[[], float]
    _shared: "WeakKeyDictionary[Cloud, tuple[float, asyncio.Task[ListT]]]" = field(default_factory=WeakKeyDictionary)

    async def recent(self, cloud: Cloud, read: Callable[[], Coroutine[None, None, ListT]]) -> ListT:
        """What was begun to be read at most `max_age` seconds ago. Raises CloudError; a failed list is not kept."""
        begun, task = self._shared.get(cloud, (float("-inf"), None))
        if task is None or _failed(task) or self.clock() - begun > self.max_age:
            task = self._begin(cloud, read)
        # Shielded: one caller's cancellation must not end what others wait for.
        return await asyncio.shield(task)

    async def fresh(self, cloud: Cloud, read: Callable[[], Coroutine[None, None, ListT]]) -> ListT:
        """What was begun to be read after this was asked: those who ask while a list is under way share the next."""
        _, before = self._shared.get(cloud, (0.0, None))
        if before is not None and not before.done():
            await asyncio.wait({before})
        _, task = self._shared.get(cloud, (0.0, None))
        if task is None or task is before or _failed(task):
            task = self._begin(cloud, read)
        return await asyncio.shield(task)

    def asked_for(self, cloud: Cloud) -> bool:
        """Whether anybody wanted the list of this connection."""
        return cloud in self._shared

    def _begin(self, cloud: Cloud, read: Callable[[], Coroutine[None, None, ListT]]) -> asyncio.Task[ListT]:
        task = asyncio.create_task(read())
        self._shared[cloud] = self.clock(), task
        return task


def _failed(task: asyncio.Task[ListT]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
