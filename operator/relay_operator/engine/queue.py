"""One queue for all kinds: deduplicating, serialised per key, by priority, with delays."""

import asyncio
import heapq
import itertools
from collections import Counter, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from enum import IntEnum
from math import ceil, inf
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)

_POLLS_EVERY: Final = 1.0
"""Seconds between the moments at which polls are due: together they cost a third of what they cost one by one."""

_STALE: Final = 2
_FEW: Final = 64
"""More than `_STALE` times as many due times as delayed keys, and this many more, are gone through once."""


class Priority(IntEnum):
    """Lower goes first: what stops billing leads, and what only looks comes last."""

    DELETE = 0
    EVENT = 1  # the cloud reports a change
    CHANGE = 2  # people changed something
    RETRY = 3
    POLL = 4
    REPAIR = 5


@dataclass(frozen=True, slots=True)
class Taken(Generic[KeyT]):
    """A key handed to a worker, its priority, and since when it was ready (monotonic seconds)."""

    key: KeyT
    priority: Priority
    since: float


@dataclass(slots=True)
class _Pending:
    priority: Priority
    since: float
    number: int = -1
    """Its number in order of arrival, once it is in a line."""


class Lane(NamedTuple):
    """The keys that one cause may hold up together, such as those of an account, and how many workers they may have."""

    cause: Hashable
    workers: int


Lanes: TypeAlias = tuple[Lane, ...]
_Ready: TypeAlias = tuple[Priority, bool, int, int, KeyT, Lanes]
"""Priority, whether the key gives way, its tenant's turn, its number in order of arrival, the key and its lanes."""
_Line: TypeAlias = tuple[Priority, Hashable]
"""The keys that take turns with those of other tenants: priority and tenant."""


@dataclass(frozen=True, slots=True)
class Shares(Generic[KeyT]):
    """How many workers a group of keys may have at a time, so that other keys find a free one."""

    gives_way: Callable[[KeyT], bool] = lambda _: False
    giving_way: int = 1
    """For all keys that give way, together."""
    lanes: Callable[[KeyT], Lanes] = lambda _: ()
    """Each lane is within the next one: all keys of a lane have the same lanes after it."""
    tenant: Callable[[KeyT], Hashable] = lambda _: None
    """Whose the key is: among equals, tenants take turns, however many keys each has."""


@dataclass(slots=True)
class Queue(Generic[KeyT]):
    """Keys waiting for a worker: by priority, then those that give way last, then by turns, then in order of arrival.

    Keys that give way, and the keys of one lane, never have more workers than their share. A key is ready at most once
    and with one worker at most: if it is added while a worker has it, it runs once more after that. A delayed key that
    is added again keeps the earlier time. Operations take O(log n); nothing polls.
    """

    clock: Callable[[], float]
    shares: Shares[KeyT] = field(default_factory=Shares)
    _ready: dict[bool, list[_Ready[KeyT]]] = field(default_factory=lambda: {False: [], True: []})
    """By whether the keys give way."""
    _parked: dict[tuple[Lane, bool], list[_Ready[KeyT]]] = field(default_factory=dict)
    """Ready keys of which a lane had its share, by that lane and by whether they give way."""
    _giving_way: int = 0
    """How many workers have keys that give way."""
    _in_lane: dict[Lane, int] = field(default_factory=dict)
    """How many workers each lane has."""
    _pending: dict[KeyT, _Pending] = field(default_factory=dict)
    _working: dict[KeyT, Lanes] = field(default_factory=dict)
    """The keys that workers have, with the lanes that each was taken in."""
    _delayed: dict[KeyT, tuple[float, Priority]] = field(default_factory=dict)
    _due: list[tuple[float, int, KeyT]] = field(default_factory=list)
    _turns: dict[Priority, int] = field(default_factory=dict)
    """The latest turn of which a key was taken, by priority."""
    _last: dict[_Line, int] = field(default_factory=dict)
    """The turn of the last key in each line in which any waits."""
    _in_line: Counter[_Line] = field(default_factory=Counter)
    """How many ready keys each line has, with those that moved forward since."""
    _order: "itertools.count[int]" = field(default_factory=itertools.count)
    _waiters: deque[asyncio.Future[None]] = field(default_factory=deque)
    _timer: asyncio.TimerHandle | None = None
    _timer_due: float = inf

    def add(self, key: KeyT, priority: Priority) -> None:
        """Make the key ready; a more urgent priority moves a waiting key forward."""
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
        """Make the key ready in `delay` seconds, unless it is ready, or due earlier; a poll at most a second later."""
        if delay <= 0:
            self.add(key, priority)
            return
        due = self.clock() + delay
        if priority is Priority.POLL:
            due = ceil(due / _POLLS_EVERY) * _POLLS_EVERY
        current = self._delayed.get(key)
        if key in self._pending or (current is not None and current[0] <= due):
            return
        self._delayed[key] = (due, priority)
        heapq.heappush(self._due, (due, next(self._order), key))
        if len(self._due) > _STALE * len(self._delayed) + _FEW:
            self._due = [(due, next(self._order), key) for key, (due, _) in self._delayed.items()]
            heapq.heapify(self._due)
        if self._waiters:
            self._arm()

    async def take(self) -> Taken[KeyT]:
        """Returns the most urgent ready key, and waits for one if there is none. The caller must call `done` with it.

        A delay that was set for the key is dropped: the pass decides when to come back.
        """
        while True:
            self._promote()
            if (taken := self._pop()) is not None:
                return taken
            await self._wait()

    def done(self, key: KeyT) -> None:
        """Release the key; if it was added meanwhile, it becomes ready."""
        lanes = self._working.pop(key)
        for lane in lanes:
            self._in_lane[lane] -= 1
            if not self._in_lane[lane]:
                del self._in_lane[lane]
        self._leave_place(lanes)
        if self.shares.gives_way(key):
            self._giving_way -= 1
            self._wake_one()  # for a key that had to wait for this share
        if (waiting := self._pending.get(key)) is not None:
            self._push(key, waiting.priority)

    def is_working(self, key: KeyT) -> bool:
        """Whether a worker has the key."""
        return key in self._working

    def __len__(self) -> int:
        """How many keys wait for a worker, without those that are delayed."""
        return len(self._pending)

    @property
    def oldest(self) -> float | None:
        """When the longest waiting key became ready, in the clock's seconds; None if none waits."""
        return min((waiting.since for waiting in self._pending.values()), default=None)

    def _pop(self) -> Taken[KeyT] | None:
        while ready := self._foremost():
            first = heapq.heappop(ready)
            priority, gives_way, turn, order, key, lanes = first
            if not self._is_current(first):
                self._leave_line(priority, key)
                self._leave_place(lanes)
                continue
            if (changed := self.shares.lanes(key)) != lanes:
                heapq.heappush(ready, (priority, gives_way, turn, order, key, changed))
                self._leave_place(lanes)
                continue
            free = self._free(lanes)
            if free < len(lanes):
                self._park(first, lanes[free])
                self._leave_place(lanes[free + 1 :])
                continue
            self._leave_line(priority, key)
            waiting = self._pending.pop(key)
            self._turns[priority] = max(self._turns.get(priority, 0), turn)
            self._working[key] = lanes
            self._giving_way += gives_way
            for lane in lanes:
                self._in_lane[lane] = self._in_lane.get(lane, 0) + 1
            return Taken(key, waiting.priority, waiting.since)
        return None

    def _is_current(self, ready: _Ready[KeyT]) -> bool:
        """Whether the key still waits for this; it may have been moved forward, or taken, since."""
        _, _, _, number, key, _ = ready
        waiting = self._pending.get(key)
        return waiting is not None and waiting.number == number and key not in self._working

    def _free(self, lanes: Lanes) -> int:
        """How many of the lanes have a free worker, from the innermost to the first that has none."""
        for number, lane in enumerate(lanes):
            if self._in_lane.get(lane, 0) >= lane.workers:
                return number
        return len(lanes)

    def _leave_line(self, priority: Priority, key: KeyT) -> None:
        line = priority, self.shares.tenant(key)
        self._in_line[line] -= 1
        if not self._in_line[line]:
            del self._in_line[line], self._last[line]

    def _leave_place(self, lanes: Lanes) -> None:
        """Make the first parked key of either sort ready in each lane that has a free worker."""
        for lane in lanes if self._parked else ():
            if self._in_lane.get(lane, 0) >= lane.workers:
                continue
            for gives_way in (False, True):
                parked = self._parked.get((lane, gives_way))
                if parked:
                    heapq.heappush(self._ready[gives_way], heapq.heappop(parked))
                    self._wake_one()
                if parked == []:
                    del self._parked[lane, gives_way]

    def _foremost(self) -> list[_Ready[KeyT]]:
        """The heap that has the next key; empty if none may be taken."""
        others, giving_way = self._ready[False], self._ready[True]
        if not giving_way or self._giving_way >= self.shares.giving_way:
            return others
        return giving_way if not others or giving_way[0] < others[0] else others

    def _push(self, key: KeyT, priority: Priority) -> None:
        gives_way, lanes = self.shares.gives_way(key), self.shares.lanes(key)
        line = priority, self.shares.tenant(key)
        self._in_line[line] += 1
        turn = self._last[line] = max(self._turns.get(priority, 0), self._last.get(line, 0)) + 1
        number = self._pending[key].number = next(self._order)
        ready = (priority, gives_way, turn, number, key, lanes)
        free = self._free(lanes)
        if free < len(lanes) and self._waiters and not (gives_way and self._giving_way >= self.shares.giving_way):
            self._park(ready, lanes[free])  # as a worker would do that is woken for it
            return
        heapq.heappush(self._ready[gives_way], ready)
        self._wake_one()

    def _park(self, ready: _Ready[KeyT], lane: Lane) -> None:
        """Let the key wait until this lane has a free worker."""
        heapq.heappush(self._parked.setdefault((lane, ready[1]), []), ready)

    def _wake_one(self) -> None:
        """Wake one worker, since one key needs only one."""
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
                self._wake_one()  # another worker has to take the key that woke this one
            raise

    def _promote(self) -> None:
        """Make due keys ready."""
        now = self.clock()
        while self._first_due() <= now:
            _, _, key = heapq.heappop(self._due)
            self.add(key, self._delayed[key][1])

    def _first_due(self) -> float:
        """When the first delayed key is due; times that no longer hold are dropped: no timer need ring for them."""
        while self._due:
            due, _, key = self._due[0]
            if (current := self._delayed.get(key)) is not None and current[0] == due:
                return due
            heapq.heappop(self._due)
        return inf

    def _arm(self) -> None:
        """Set the one timer, for the key that is due first."""
        due = self._first_due()
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
