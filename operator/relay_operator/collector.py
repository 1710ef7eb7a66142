"""Sums up objects and the queue for the metrics, and reports every pass to them."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TypeAlias

from prometheus_client import Gauge

from relay_operator.api.meta import ObjectKey
from relay_operator.engine.cache import Cache
from relay_operator.engine.entry import Entry, unchanged
from relay_operator.engine.leftover import Fate
from relay_operator.engine.leftovers import Leftovers
from relay_operator.engine.passes import Pass
from relay_operator.engine.queue import Priority, Queue
from relay_operator.observability.metrics import Metrics

Series: TypeAlias = tuple[Gauge, tuple[str, ...]]
"""A gauge and the values of its labels."""
_SHOWN = attrgetter("reason", "unknown", "troubles", "doomed", "deleting", "finalizer", "figures")
INTERVAL = 10.0
"""Seconds between two updates of the gauges."""


@dataclass(slots=True)
class Collector:
    """Fills the gauges that are sums over objects; sums follow every change, so that no update walks over all objects.

    Exact as long as the cache is empty at the start.
    """

    cache: Cache
    queue: Queue[ObjectKey]
    metrics: Metrics
    leftovers: Leftovers
    clock: Callable[[], float]
    _sums: dict[Series, tuple[int, float]] = field(default_factory=dict)
    """By series: how many objects add to it, and their sum."""
    _shown: set[Series] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.cache.on_changed = self._changed

    async def run(self) -> None:
        """Update the gauges until cancelled."""
        while True:
            self.show()
            await asyncio.sleep(INTERVAL)

    def show(self) -> None:
        """Update the gauges."""
        metrics = self.metrics
        for gauge, labels in self._shown - self._sums.keys():
            gauge.remove(*labels)
        self._shown = set(self._sums)
        for (gauge, labels), (_, value) in self._sums.items():
            gauge.labels(*labels).set(value / 1e9 if gauge is metrics.batch_cost_usd else value)
        counts = self.leftovers.counts()
        for fate in Fate:
            metrics.leftovers.labels(fate).set(counts[fate])
        oldest = self.queue.oldest
        metrics.queue_depth.set(len(self.queue))
        metrics.queue_oldest_seconds.set(0 if oldest is None else self.clock() - oldest)

    def _changed(self, key: ObjectKey, before: Entry | None, after: Entry | None) -> None:
        if unchanged(_SHOWN, before, after):
            return
        was, adds = self._added(key, before), self._added(key, after)
        for series, value in was:
            objects, total = self._sums.pop(series)
            if objects > 1:
                self._sums[series] = objects - 1, total - value
        for series, value in adds:
            objects, total = self._sums.get(series, (0, 0))
            self._sums[series] = objects + 1, total + value

    def _added(self, key: ObjectKey, entry: Entry | None) -> list[tuple[Series, float]]:
        """What one object adds; costs in nano dollars, whose sums are exact."""
        if entry is None:
            return []
        metrics, figures = self.metrics, entry.figures
        added: list[tuple[Series, float]] = [((metrics.objects, (key.kind, entry.reason or "None")), 1)]
        if entry.unknown:
            added.append(((metrics.creates_unknown, (key.kind,)), 1))
        added += [((metrics.troubles, (key.kind, trouble)), 1) for trouble in entry.troubles]
        if entry.doomed:
            added.append(((metrics.deletion_deadlines, (key.kind,)), 1))
        if entry.deleting and not entry.let_go:
            added.append(((metrics.deletions, (key.kind,)), 1))
        if figures.gpus:
            added.append(((metrics.gpus, (key.namespace, key.kind, figures.model)), figures.gpus))
        added += [((metrics.batch_records, (key.namespace, outcome)), records) for outcome, records in figures.records]
        if figures.records:
            added.append(((metrics.batch_cost_usd, (key.namespace,)), figures.cost_nano_usd))
        if figures.last_success:
            added.append(((metrics.schedule_last_success, (key.namespace, key.name)), figures.last_success))
        return added

    def on_pass(self, done: Pass) -> None:
        kind, taken = done.taken.key.kind, done.taken
        waited = self.clock() - taken.since - done.seconds
        self.metrics.on_pass(kind, done.outcome, taken.priority.name.lower(), max(waited, 0), done.seconds)
        if done.wrote and taken.priority is Priority.EVENT:
            self.metrics.webhook_to_status_seconds.observe(self.clock() - taken.since)
