"""What a webhook leads to: the objects it may be about are looked at. A hint is never believed."""

from collections.abc import Callable
from dataclasses import dataclass

from relay_operator.api.meta import ObjectKey
from relay_operator.engine.cache import Cache
from relay_operator.engine.queue import Priority, Queue
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_wire.events import Event


@dataclass(frozen=True, slots=True)
class EventRouter:
    """Turns events into queued keys: O(1) for a known id."""

    cache: Cache
    queue: Queue[ObjectKey]
    unclaimed: Callable[[ObjectKey], UnclaimedIds]
    """An account's."""
    heard: Callable[[ObjectKey], None] = lambda _account: None
    """Told of every account that a webhook came from."""

    def on_event(self, account: ObjectKey, event: Event) -> None:
        """Wake who records one of the ids; one that nobody records may answer an open intent of this account."""
        self.heard(account)
        owners = {key for cloud_id in event.resource_ids for key in self.cache.with_cloud_id(cloud_id)}
        for key in owners:
            self.queue.add(key, Priority.EVENT)
        if owners:
            return
        unclaimed = self.unclaimed(account)
        for cloud_id in event.resource_ids:
            unclaimed.add(cloud_id)
        for key in self.cache.searching(account):
            # What is being created at this moment learns of the id when its answer is in.
            if not self.queue.is_working(key):
                self.queue.add(key, Priority.EVENT)
