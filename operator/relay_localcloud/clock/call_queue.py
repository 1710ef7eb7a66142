"""Which outbound calls may start: an in-memory index of the due-queue's outbound items, which are authoritative.

An entry may be stale because its item was cancelled or replaced; the code that takes it looks up the item.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable
from heapq import heappop, heappush, heappushpop

from relay_localcloud.kernel.due import QueuedCall
from relay_localcloud.kernel.shares import may_take


class CallQueue:
    """Hands out calls in order of due time, up to `in_all` at once and up to `per_lane` of each lane.

    An organization gets its share of the places (`shares.may_take`). `owner_of` gives the organization of a lane.
    """

    def __init__(self, in_all: int, per_lane: int, owner_of: Callable[[str], str]) -> None:
        self._in_all = in_all
        self._per_lane = per_lane
        self._owner_of = owner_of
        self._waiting: list[QueuedCall] = []
        # Calls whose lane was full at their turn; one comes back for each that ends.
        self._parked: defaultdict[str, deque[QueuedCall]] = defaultdict(deque)
        # Calls whose organization had its share at their turn, as heaps; they come back as the share grows.
        self._beyond_share: dict[str, list[QueuedCall]] = {}
        self._under_way: dict[int, QueuedCall] = {}
        self._owners: dict[int, str] = {}  # of calls that wait or are under way; a lane may be deleted meanwhile
        self._in_lane: Counter[str] = Counter()
        self._of_owner: Counter[str] = Counter()
        self._pending: Counter[str] = Counter()

    def add(self, call: QueuedCall) -> None:
        """Let a call wait for its due time."""
        owner = self._owners[call.item_id] = self._owner_of(call.lane)
        self._pending[owner] += 1
        heappush(self._waiting, call)

    def pending(self, owner: str) -> int:
        """How many calls of an organization wait for their due time or their turn, or are under way."""
        return self._pending[owner]

    def take(self, until: int) -> QueuedCall | None:
        """The next call that is due by `until` and may start, now counted as under way; None if there is none."""
        while self._waiting and self._waiting[0].due_at <= until and len(self._under_way) < self._in_all:
            call = heappop(self._waiting)
            owner = self._owners[call.item_id]
            if owner in self._beyond_share:
                call = heappushpop(self._beyond_share[owner], call)
            if not self._has_share(owner):
                heappush(self._beyond_share.setdefault(owner, []), call)
            elif self._in_lane[call.lane] >= self._per_lane:
                self._parked[call.lane].append(call)
                self._recall(owner)
            else:
                self._in_lane[call.lane] += 1
                self._of_owner[owner] += 1
                self._under_way[call.item_id] = call
                self._recall(owner)
                return call
        return None

    def finished(self, call: QueuedCall) -> None:
        """Free the call's place for the next."""
        del self._under_way[call.item_id]
        owner = self._owners.pop(call.item_id)
        _count_down(self._in_lane, call.lane)
        _count_down(self._of_owner, owner)
        _count_down(self._pending, owner)
        if parked := self._parked.get(call.lane):
            heappush(self._waiting, parked.popleft())
        else:
            self._parked.pop(call.lane, None)
        for waiting in list(self._beyond_share):
            self._recall(waiting)

    def next_due(self) -> int | None:
        """When the next call that could start falls due; None if there is none, or too many are under way."""
        if not self._waiting or len(self._under_way) >= self._in_all:
            return None
        return self._waiting[0].due_at

    def earliest(self) -> int | None:
        """The earliest due time, past or future, of all unfinished calls."""
        heads = [call.due_at for call in (*self._waiting[:1], *self._under_way.values())]
        heads += [parked[0].due_at for parked in self._parked.values() if parked]
        heads += [beyond[0].due_at for beyond in self._beyond_share.values()]
        return min(heads, default=None)

    def _has_share(self, owner: str) -> bool:
        return may_take(self._of_owner[owner], self._in_all - len(self._under_way))

    def _recall(self, owner: str) -> None:
        """Let the first waiting call of an organization with a free share wait for its turn; the others follow it."""
        beyond = self._beyond_share.get(owner)
        if beyond and self._has_share(owner):
            heappush(self._waiting, heappop(beyond))
            if not beyond:
                del self._beyond_share[owner]


def _count_down(counter: Counter[str], name: str) -> None:
    counter[name] -= 1
    if not counter[name]:
        del counter[name]
