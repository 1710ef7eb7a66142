"""What a webhook does: it wakes the objects that it may be about. A webhook is a hint, never believed."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice

from relay_operator.api.meta import ObjectKey
from relay_operator.engine.cache import Cache
from relay_operator.engine.queue import Priority, Queue
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_wire.events import Event

_BURST = 10.0
"""Seconds' worth of wakes that one object may use at once."""
_INTERVAL = 1.0
"""Seconds between two wakes of one object in the long run, and of those that search in one account.

An earlier wake is delayed, not lost.
"""


@dataclass(frozen=True, slots=True)
class EventRouter:
    """Turns events into queued keys: O(1) for a known id."""

    cache: Cache
    queue: Queue[ObjectKey]
    unclaimed: Callable[[ObjectKey], UnclaimedIds]
    """The unclaimed ids of an account."""
    heard: Callable[[ObjectKey], None] = lambda _account: None
    """Called for every account that sends a webhook."""
    _spent: dict[ObjectKey, float] = field(default_factory=dict)
    """Until when each object has used up its wakes."""
    _resting: dict[ObjectKey, bool] = field(default_factory=dict)
    """Accounts whose searching objects were woken within the interval, and whether to wake them at its end."""

    def on_event(self, account: ObjectKey, event: Event) -> None:
        """Wake the objects that record one of the ids; an unrecorded id may answer an open intent of this account.

        An event signed for one account never wakes an object of another.
        """
        self.heard(account)
        owners = {key for cloud_id in event.resource_ids for key in self.cache.others(account, cloud_id)}
        for key in owners:
            if self.cache.account_of(key) == account:
                self._wake(key)
        if owners:
            return
        unclaimed = self.unclaimed(account)
        for cloud_id in event.resource_ids:
            unclaimed.add(cloud_id)
        if account in self._resting:
            self._resting[account] = True
        else:
            self._wake_searching(account)

    def _wake_searching(self, account: ObjectKey) -> None:
        """Wake them together: there may be thousands, with intents written by hand, and whoever signs chooses ids."""
        searching = self.cache.searching(account)
        for key in searching:
            # An object whose create is under way learns its id from the answer.
            if not self.queue.is_working(key):
                self.queue.add(key, Priority.EVENT)
        if searching:
            self._resting[account] = False
            asyncio.get_running_loop().call_later(_INTERVAL, self._rested, account)

    def _rested(self, account: ObjectKey) -> None:
        if self._resting.pop(account):
            self._wake_searching(account)

    def _wake(self, key: ObjectKey) -> None:
        now = self.queue.clock()
        spent = max(self._spent.get(key, now), now)
        if spent - now > _BURST:
            self.queue.add_after(key, spent - now - _BURST, Priority.EVENT)
            return
        self._spent.pop(key, None)  # so that the first is the one that was woken longest ago
        self._spent[key] = spent + _INTERVAL
        for other in tuple(islice(self._spent, 2)):
            if self._spent[other] <= now:
                del self._spent[other]
        self.queue.add(key, Priority.EVENT)
