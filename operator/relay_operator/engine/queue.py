"""One queue for all kinds: deduplicating, serialised per key, by priority, with delays."""

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from enum import IntEnum
from math import inf
from typing import Generic, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)


class Priority(IntEnum):
    """Lower goes first. What stops billing leads; what only looks comes last."""

    DELETE = 0
    EVENT = 1  # the cloud says that something changed
    CHANGE = 2  # people changed something
    RETRY = 3
    POLL = 4
    REPAIR = 5


@dataclass(frozen=True, slots=True)
class Taken(Generic[KeyT]):
    """A key handed to a worker, why, and when that became known (monotonic seconds)."""

    key: KeyT
    priority: Priority
    since: float


@dataclass(slots=True)
class _Pending:
    priority: Priority
    since: float


@dataclass(slots=True)
class Queue(Generic[KeyT]):
    """Keys waiting for a worker, by priority, and among equals in the order they came, after them those that give way.

    At most `at_once` of those that give way are worked on at the same time: however many they are, the others find a
    worker that is free, and servers that are not busy with them.
    A key is ready at most once and with one worker at most: what is added while it is worked on runs
    after, once. A delayed key that is added again, or ready sooner, keeps the earlier of both times.
    Work per operation is O(log n); nothing polls.
    """

    clock: Callable[[], float]
    gives_way: Callable[[KeyT], bool] = lambda _: False
    at_once: int = 1
    _ready: dict[bool, list[tuple[Priority, bool, int, KeyT]]] = field(default_factory=lambda: {False: [], True: []})
    """By whether they give way."""
    _giving_way: int = 0
    """How many of those workers have."""
    _pending: dict[KeyT, _Pending] = field(default_factory=dict)
    _working: set[KeyT] = field(default_factory=set)
    _delayed: dict[KeyT, tuple[float, Priority]] = field(default_factory=dict)
    _due: list[tuple[float, int, KeyT]] = field(default_factory=list)
    _order: "itertools.count[int]" = field(default_factory=itertools.count)
    _waiters: deque[asyncio.Future[None]] = field(default_factory=deque)
    _timer: asyncio.TimerHandle | None = None
    _timer_due: float = inf

    def add(self, key: KeyT, priority: Priority) -> None:
        """Make the key ready; a more urgent reason than the one it waits for moves it forward."""
        waiting = self._pending.get(key)
        if waiting is None:
            self._pending[key] = _Pending(priority, self.clock())
        elif priority < waiting.priority:
            waiting.priority = priority
        else:
            return
        self._delayed.pop(key, None)
        if key not in self._working:
            self._push(key, priority)

    def add_after(self, key: KeyT, delay: float, priority: Priority) -> None:
        """Make the key ready in `delay` seconds, unless it is ready or due sooner."""
        if delay <= 0:
            self.add(key, priority)
            return
        due = self.clock() + delay
        current = self._delayed.get(key)
        if key in self._pending or (current is not None and current[0] <= due):
            return
        self._delayed[key] = (due, priority)
        heapq.heappush(self._due, (due, next(self._order), key))
        if self._waiters:
            self._arm()

    def forget(self, key: KeyT) -> None:
        """Drop what waits for the key; work under way is not touched."""
        self._pending.pop(key, None)
        self._delayed.pop(key, None)

    async def take(self) -> Taken[KeyT]:
        """The most urgent ready key; waits for one. The caller must call `done` with it.

        What was delayed for the key is dropped: whoever works on it decides anew when to come back.
        """
        while True:
            self._promote()
            taken = self._pop()
            if taken is not None:
                return taken
            await self._wait()

    def done(self, key: KeyT) -> None:
        """The worker is through with the key; what was added meanwhile becomes ready."""
        self._working.discard(key)
        if self.gives_way(key):
            self._giving_way -= 1
            self._wake_one()  # for one that could not be taken beside it
        waiting = self._pending.get(key)
        if waiting is not None:
            self._push(key, waiting.priority)

    def is_working(self, key: KeyT) -> bool:
        """Whether a worker has the key."""
        return key in self._working

    def __len__(self) -> int:
        """Keys ready for a worker, not counting those that are delayed."""
        return len(self._pending)

    @property
    def oldest(self) -> float | None:
        """Since when the longest waiting key has been ready, in the clock's seconds."""
        return min((waiting.since for waiting in self._pending.values()), default=None)

    def _pop(self) -> Taken[KeyT] | None:
        while ready := self._foremost():
            priority, gives_way, _, key = heapq.heappop(ready)
            waiting = self._pending.get(key)
            if waiting is None or waiting.priority != priority or key in self._working:
                continue  # forgotten, or moved forward and already taken
            del self._pending[key]
            self._working.add(key)
            self._giving_way += gives_way
            return Taken(key, priority, waiting.since)
        return None

    def _foremost(self) -> list[tuple[Priority, bool, int, KeyT]]:
        """Those among whom the next one is; empty where none may be taken."""
        others, giving_way = self._ready[False], self._ready[True]
        if not giving_way or self._giving_way >= self.at_once:
            return others
        return giving_way if not others or giving_way[0] < others[0] else others

    def _push(self, key: KeyT, priority: Priority) -> None:
        gives_way = self.gives_way(key)
        heapq.heappush(self._ready[gives_way], (priority, gives_way, next(self._order), key))
        self._wake_one()

    def _wake_one(self) -> None:
        """One key wakes one worker, however many wait."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    async def _wait(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._arm()
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._wake_one()  # the key that woke this one is for another
            raise

    def _promote(self) -> None:
        """Make ready what is due."""
        now = self.clock()
        while self._due and self._due[0][0] <= now:
            due, _, key = heapq.heappop(self._due)
            current = self._delayed.get(key)
            if current is not None and current[0] == due:
                self.add(key, current[1])

    def _arm(self) -> None:
        """One timer, for what is due first."""
        due = self._due[0][0] if self._due else inf
        if due >= self._timer_due:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due = due
        self._timer = asyncio.get_running_loop().call_later(max(due - self.clock(), 0), self._ring)

    def _ring(self) -> None:
        self._timer, self._timer_due = None, inf
        self._promote()
        self._arm()
