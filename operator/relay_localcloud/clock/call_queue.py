"""Which calls to receivers may start: an index in memory of the due-queue's outbound items, which are the truth.

An entry may be stale, since its item was cancelled or replaced; whoever takes it looks the item up.
"""

from collections import defaultdict, deque
from heapq import heappop, heappush

from relay_localcloud.kernel.due import QueuedCall


class CallQueue:
    """Gives out calls in order of due time, up to `in_all` at once and up to `per_lane` of each lane."""

    def __init__(self, in_all: int, per_lane: int) -> None:
        self._in_all = in_all
        self._per_lane = per_lane
        self._waiting: list[QueuedCall] = []
        # Calls whose lane was full when their turn came; one comes back for each that ends.
        self._parked: defaultdict[str, deque[QueuedCall]] = defaultdict(deque)
        self._under_way: dict[int, QueuedCall] = {}
        self._in_lane: defaultdict[str, int] = defaultdict(int)

    def add(self, call: QueuedCall) -> None:
        """Let a call wait for its due time."""
        heappush(self._waiting, call)

    def take(self, until: int) -> QueuedCall | None:
        """The next call that is due by `until` and may start, under way from then on; None if there is none."""
        while self._waiting and self._waiting[0].due_at <= until and len(self._under_way) < self._in_all:
            call = heappop(self._waiting)
            if self._in_lane[call.lane] < self._per_lane:
                self._in_lane[call.lane] += 1
                self._under_way[call.item_id] = call
                return call
            self._parked[call.lane].append(call)
        return None

    def finished(self, call: QueuedCall) -> None:
        """Make its place free for the next."""
        del self._under_way[call.item_id]
        self._in_lane[call.lane] -= 1
        if parked := self._parked.get(call.lane):
            heappush(self._waiting, parked.popleft())
        else:
            self._parked.pop(call.lane, None)
        if not self._in_lane[call.lane]:
            del self._in_lane[call.lane]

    def next_due(self) -> int | None:
        """When the next call falls due that could start; None where there is none, or too many are under way."""
        if not self._waiting or len(self._under_way) >= self._in_all:
            return None
        return self._waiting[0].due_at

    def earliest(self) -> int | None:
        """When the earliest call fell due, or will, of all that are not finished."""
        heads = [call.due_at for call in (*self._waiting[:1], *self._under_way.values())]
        heads += [parked[0].due_at for parked in self._parked.values() if parked]
        return min(heads, default=None)
