"""One queue for all kinds: deduplicating, serialised per key, by priority, with delays."""

import asyncio
import heapq
import itertools
from collections import Counter, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from enum import IntEnum
from math import inf
from typing import Generic, TypeAlias, TypeVar

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


Lane: TypeAlias = Hashable
_Ready: TypeAlias = tuple[Priority, bool, int, KeyT, Lane | None]
"""Priority, whether it gives way, its number in the order of coming, the key and its lane."""


@dataclass(frozen=True, slots=True)
class Shares(Generic[KeyT]):
    """How many workers the keys of one sort may have at the same time, so that the others find one that is free."""

    gives_way: Callable[[KeyT], bool] = lambda _: False
    giving_way: int = 1
    """Of those that give way, all together."""
    lane: Callable[[KeyT], Lane | None] = lambda _: None
    """What a key's work may be held up by, together with others of this lane; None if it is by nothing."""
    in_lane: int = 1
    """Of each lane."""


@dataclass(slots=True)
class Queue(Generic[KeyT]):
    """Keys waiting for a worker, by priority, and among equals in the order they came, after them those that give way.

    However many there are that give way, or in one lane, no more of them are worked on than their share.
    A key is ready at most once and with one worker at most: what is added while it is worked on runs
    after, once. A delayed key that is added again, or ready sooner, keeps the earlier of both times.
    Work per operation is O(log n); nothing polls.
    """

    clock: Callable[[], float]
    shares: Shares[KeyT] = field(default_factory=Shares)
    _ready: dict[bool, list[_Ready[KeyT]]] = field(default_factory=lambda: {False: [], True: []})
    """By whether they give way."""
    _parked: dict[tuple[Lane, bool], list[_Ready[KeyT]]] = field(default_factory=dict)
    """What was ready as its lane had its share, by lane and by whether it gives way."""
    _giving_way: int = 0
    """How many of those workers have."""
    _in_lane: Counter[Lane] = field(default_factory=Counter)
    """How many workers each lane has."""
    _pending: dict[KeyT, _Pending] = field(default_factory=dict)
    _working: dict[KeyT, Lane | None] = field(default_factory=dict)
    """With the lane that each was taken in."""
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

    async def take(self) -> Taken[KeyT]:
        """The most urgent ready key; waits for one. The caller must call `done` with it.

        What was delayed for the key is dropped: whoever works on it decides again when to come back.
        """
        while True:
            self._promote()
            taken = self._pop()
            if taken is not None:
                return taken
            await self._wait()

    def done(self, key: KeyT) -> None:
        """The worker is through with the key; what was added meanwhile becomes ready."""
        lane = self._working.pop(key)
        if lane is not None:
            self._in_lane[lane] -= 1
            self._unpark(lane)
        if self.shares.gives_way(key):
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
            first = heapq.heappop(ready)
            _, gives_way, _, key, lane = first
            is_full = lane is not None and self._in_lane[lane] >= self.shares.in_lane
            if not self._is_current(first):
                if lane is not None and not is_full:
                    self._unpark(lane)  # this one had been, and leaves the place to the next
                continue
            if lane is not None and is_full:
                heapq.heappush(self._parked.setdefault((lane, gives_way), []), first)
                continue
            waiting = self._pending.pop(key)
            self._working[key] = lane
            self._giving_way += gives_way
            if lane is not None:
                self._in_lane[lane] += 1
            return Taken(key, waiting.priority, waiting.since)
        return None

    def _is_current(self, ready: _Ready[KeyT]) -> bool:
        """Whether the key still waits for this; it may have moved forward, and been taken meanwhile."""
        waiting = self._pending.get(ready[3])
        return waiting is not None and waiting.priority == ready[0] and ready[3] not in self._working

    def _foremost(self) -> list[_Ready[KeyT]]:
        """Those among whom the next one is; empty if none may be taken."""
        others, giving_way = self._ready[False], self._ready[True]
        if not giving_way or self._giving_way >= self.shares.giving_way:
            return others
        return giving_way if not others or giving_way[0] < others[0] else others

    def _push(self, key: KeyT, priority: Priority) -> None:
        gives_way = self.shares.gives_way(key)
        ready = (priority, gives_way, next(self._order), key, self.shares.lane(key))
        heapq.heappush(self._ready[gives_way], ready)
        self._wake_one()

    def _unpark(self, lane: Lane) -> None:
        """The lane has less than its share: the first of either sort may be the next."""
        if not self._in_lane[lane]:
            del self._in_lane[lane]
        for gives_way in (False, True):
            parked = self._parked.get((lane, gives_way))
            if parked:
                heapq.heappush(self._ready[gives_way], heapq.heappop(parked))
                self._wake_one()
            if parked == []:
                del self._parked[lane, gives_way]

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
