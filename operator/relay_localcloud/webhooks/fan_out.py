"""Events for organizations with several subscriptions: each is recorded for all of them in a turn of its organization.

One request may cause a thousand events, each of them a hundred deliveries; other organizations do not wait for those.
"""

from collections.abc import Callable
from typing import Final

from relay_localcloud.clock.outbound import Outbound
from relay_localcloud.http.turns import Turns
from relay_localcloud.kernel import due
from relay_localcloud.kernel.due import QueuedCall
from relay_localcloud.kernel.store import Store, Tx
from relay_localcloud.webhooks.webhooks import FAN_OUT, Event, record

_AT_ONCE: Final = 256


def lane_of(organization_id: str) -> str:
    """The lane of turns for an organization's events and their calls, separate from that of its requests."""
    return f"events of {organization_id}"


class FanOut(Outbound):
    """Records due events; the lane of each is its organization. Drops events if the organization has no room.

    Subscriptions change only after an earlier event is recorded.
    """

    def __init__(self, store: Store, turns: Turns, has_room: Callable[[Tx, str], bool]) -> None:
        super().__init__(store, FAN_OUT, _AT_ONCE, per_lane=1)
        self._turns = turns
        self._has_room = has_room

    def _owner(self, tx: Tx, lane: str) -> str:
        del tx
        return lane

    async def _attempt(self, queued: QueuedCall, at: int, horizon: int) -> None:
        del at, horizon  # an event is recorded at the time when it happened
        await self._turns.of(lane_of(queued.lane))
        with self._store.transaction(at=queued.due_at) as tx:
            payload = due.taken(tx.connection, queued.item_id)
            if payload is not None and self._has_room(tx, queued.lane):
                record(tx, Event(**{name: str(value) for name, value in payload.items()}), queued.item_id)
