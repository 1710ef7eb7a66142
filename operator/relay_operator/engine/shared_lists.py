"""Lists that callers share who ask at about the same time; one of each is read at a time."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from relay_client import Cloud

ListT = TypeVar("ListT")


@dataclass(slots=True)
class SharedLists(Generic[ListT]):
    """Lists by cloud connection; they are dropped with their connection. Monotonic seconds.

    `of` names the list, if a connection has several.
    """

    max_age: float
    clock: Callable[[], float]
    _shared: "WeakKeyDictionary[Cloud, dict[str, tuple[float, asyncio.Task[ListT]]]]" = field(
        default_factory=WeakKeyDictionary
    )

    async def recent(self, cloud: Cloud, read: Callable[[], Coroutine[None, None, ListT]], of: str = "") -> ListT:
        """A list whose read began at most `max_age` seconds ago. Raises CloudError; a failed list is not kept."""
        begun, task = self._of(cloud).get(of, (float("-inf"), None))
        if task is None or _failed(task) or self.clock() - begun > self.max_age:
            task = self._begin(cloud, read, of)
        # Shielded: one caller's cancellation must not end the read that others wait for.
        return await asyncio.shield(task)

    async def fresh(self, cloud: Cloud, read: Callable[[], Coroutine[None, None, ListT]], of: str = "") -> ListT:
        """A list whose read begins after this call; calls during a read share the next one. Raises CloudError."""
        _, before = self._of(cloud).get(of, (0.0, None))
        if before is not None and not before.done():
            await asyncio.wait({before})
        _, task = self._of(cloud).get(of, (0.0, None))
        if task is None or task is before or _failed(task):
            task = self._begin(cloud, read, of)
        return await asyncio.shield(task)

    def asked_for(self, cloud: Cloud) -> bool:
        """Whether a list of this connection was read."""
        return cloud in self._shared

    def _of(self, cloud: Cloud) -> "dict[str, tuple[float, asyncio.Task[ListT]]]":
        return self._shared.get(cloud, {})

    def _begin(self, cloud: Cloud, read: Callable[[], Coroutine[None, None, ListT]], of: str) -> asyncio.Task[ListT]:
        task, now = asyncio.create_task(read()), self.clock()
        young = {one: kept for one, kept in self._of(cloud).items() if now - kept[0] <= self.max_age}
        self._shared[cloud] = {**young, of: (now, task)}
        return task


def _failed(task: asyncio.Task[ListT]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
