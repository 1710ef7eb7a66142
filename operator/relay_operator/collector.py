"""Counts objects and the queue for the metrics, and tells them of every pass."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass

from relay_operator.api.conditions import Reason
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.cache import Cache
from relay_operator.engine.entry import Entry
from relay_operator.engine.leftovers import Fate, Leftovers
from relay_operator.engine.passes import Pass
from relay_operator.engine.queue import Priority, Queue
from relay_operator.observability.metrics import Metrics

INTERVAL = 10.0
"""Seconds between two counts; the work of one grows with the number of objects."""


@dataclass(slots=True)
class Collector:
    """Fills the gauges that are counted rather than told."""

    cache: Cache
    queue: Queue[ObjectKey]
    metrics: Metrics
    leftovers: Leftovers
    clock: Callable[[], float]

    async def run(self) -> None:
        """Counts until cancelled."""
        while True:
            self.count()
            await asyncio.sleep(INTERVAL)

    def count(self) -> None:
        entries = tuple(self.cache.items())
        objects = Counter((key.kind, entry.reason or "None") for key, entry in entries)
        self.metrics.objects.clear()
        self.metrics.creates_unknown.clear()
        for (kind, reason), number in objects.items():
            self.metrics.objects.labels(kind, reason).set(number)
            if reason == Reason.CREATE_OUTCOME_UNKNOWN:
                self.metrics.creates_unknown.labels(kind).set(number)
        self._count_troubles(entries)
        counts = self.leftovers.counts()
        for fate in Fate:
            self.metrics.leftovers.labels(fate).set(counts[fate])
        oldest = self.queue.oldest
        self.metrics.queue_depth.set(len(self.queue))
        self.metrics.queue_oldest_seconds.set(0 if oldest is None else self.clock() - oldest)

    def _count_troubles(self, entries: Collection[tuple[ObjectKey, Entry]]) -> None:
        told = Counter((key.kind, one) for key, entry in entries for one in entry.troubles)
        doomed = Counter(key.kind for key, entry in entries if entry.doomed)
        self.metrics.troubles.clear()
        self.metrics.deletion_deadlines.clear()
        for (kind, condition), number in told.items():
            self.metrics.troubles.labels(kind, condition).set(number)
        for kind, number in doomed.items():
            self.metrics.deletion_deadlines.labels(kind).set(number)

    def on_pass(self, done: Pass) -> None:
        kind, taken = done.taken.key.kind, done.taken
        waited = self.clock() - taken.since - done.seconds
        self.metrics.on_pass(kind, done.outcome, taken.priority.name.lower(), max(waited, 0), done.seconds)
        if done.wrote and taken.priority is Priority.EVENT:
            self.metrics.webhook_to_status_seconds.observe(self.clock() - taken.since)
