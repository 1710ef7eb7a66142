"""Lists that callers share who ask at about the same time; one of each is read at a time."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Final, Generic, TypeVar
from weakref import WeakKeyDictionary, ref

from relay_client import Cloud
from relay_client.list_room import ListRoom
from relay_client.paging import WEIGHT, Weight

ListT = TypeVar("ListT")

MAX_KEPT_BYTES = 48 * 1024**2
"""The most memory of the finished lists of one tenant; the oldest ones are dropped first."""
_NUMBERS: Final = count()


@dataclass(frozen=True, slots=True)
class _Shared(Generic[ListT]):
    """A list that is being read, or was."""

    number: int
    begun: float
    task: asyncio.Task[ListT]
    weight: Weight


@dataclass(slots=True)
class SharedLists(Generic[ListT]):
    """Lists by cloud connection; they are dropped with their connection, or when they are too old. Monotonic seconds.

    `of` names the list, if a connection has several.
    """

    max_age: float
    clock: Callable[[], float]
    _shared: WeakKeyDictionary[Cloud, dict[str, _Shared[ListT]]] = field(default_factory=WeakKeyDictionary)

    async def recent(self, cloud: Cloud, read: Callable[[], Coroutine[None, None, ListT]], of: str = "") -> ListT:
        """A list whose read began at most `max_age` seconds ago. Raises CloudError; a failed list is not kept."""
        shared = self._of(cloud).get(of)
        if shared is None or _failed(shared.task) or self.clock() - shared.begun > self.max_age:
            shared = self._begin(cloud, read, of)
        # Shielded: one caller's cancellation must not end the read that others wait for.
        return await asyncio.shield(shared.task)

    async def fresh(self, cloud: Cloud, read: Callable[[], Coroutine[None, None, ListT]], of: str = "") -> ListT:
        """A list whose read begins after this call; calls during a read share the next one. Raises CloudError."""
        before = self._of(cloud).get(of)
        if before is not None and not before.task.done():
            await asyncio.wait({before.task})
        shared = self._of(cloud).get(of)
        if shared is None or shared is before or _failed(shared.task):
            shared = self._begin(cloud, read, of)
        return await asyncio.shield(shared.task)

    def asked_for(self, cloud: Cloud) -> bool:
        """Whether a list of this connection was read."""
        return cloud in self._shared

    def _of(self, cloud: Cloud) -> dict[str, _Shared[ListT]]:
        return self._shared.get(cloud, {})

    def _begin(self, cloud: Cloud, read: Callable[[], Coroutine[None, None, ListT]], of: str) -> _Shared[ListT]:
        number, now, weight = next(_NUMBERS), self.clock(), Weight()
        for name, kept in [*self._of(cloud).items()]:
            if name == of or now - kept.begun > self.max_age:
                self._drop(ref(cloud), name, kept.number)
        shared = _Shared(number, now, asyncio.create_task(_weighed(read, weight)), weight)
        self._shared.setdefault(cloud, {})[of] = shared
        shared.task.add_done_callback(partial(self._finished, ref(cloud), of, number))
        return shared

    def _finished(self, of_cloud: "ref[Cloud]", of: str, number: int, task: asyncio.Task[ListT]) -> None:
        """Keep a finished list until it is too old, within the tenant's bound; a failed one is dropped."""
        cloud = of_cloud()
        shared = None if cloud is None else self._of(cloud).get(of)
        if cloud is None or shared is None or shared.number != number:
            return
        if _failed(task):
            self._drop(of_cloud, of, number)
            return
        kept = cloud.lists.kept
        drop = partial(self._expire, cloud.lists, of_cloud, of, number)
        kept[number] = (shared.weight.size, drop)
        while sum(size for size, _ in kept.values()) > MAX_KEPT_BYTES:
            _, drop_oldest = kept.pop(next(iter(kept)))
            drop_oldest()
        # By number, since a timer that held the list would keep it.
        asyncio.get_running_loop().call_later(max(shared.begun + self.max_age - self.clock(), 0), drop)

    def _expire(self, room: ListRoom, of_cloud: "ref[Cloud]", of: str, number: int) -> None:
        """Drop a list that is too old; the room, which outlives the connection, counts it no more."""
        room.kept.pop(number, None)
        self._drop(of_cloud, of, number)

    def _drop(self, of_cloud: "ref[Cloud]", of: str, number: int) -> None:
        cloud = of_cloud()
        shared = None if cloud is None else self._of(cloud).get(of)
        if cloud is not None and shared is not None and shared.number == number:
            del self._of(cloud)[of]
            cloud.lists.kept.pop(number, None)


async def _weighed(read: Callable[[], Coroutine[None, None, ListT]], weight: Weight) -> ListT:
    WEIGHT.set(weight)  # of this task's own context
    return await read()


def _failed(task: asyncio.Task[ListT]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
