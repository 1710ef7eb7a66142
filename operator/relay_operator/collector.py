"""Counts objects and the queue for the metrics, and reports every pass to them."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from prometheus_client import Gauge

from relay_operator.api.conditions import Reason
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.cache import Cache
from relay_operator.engine.entry import Entry
from relay_operator.engine.leftovers import Fate, Leftovers
from relay_operator.engine.passes import Pass
from relay_operator.engine.queue import Priority, Queue
from relay_operator.observability.metrics import Metrics

Sums = Counter[tuple[str, ...]]
"""Counts by the values of the labels."""
INTERVAL = 10.0
"""Seconds between two counts, whose work grows with the number of objects."""


@dataclass(slots=True)
class Collector:
    """Fills the gauges that must be counted."""

    cache: Cache
    queue: Queue[ObjectKey]
    metrics: Metrics
    leftovers: Leftovers
    clock: Callable[[], float]

    async def run(self) -> None:
        """Count until cancelled."""
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
        self._add_up(entries)
        counts = self.leftovers.counts()
        for fate in Fate:
            self.metrics.leftovers.labels(fate).set(counts[fate])
        oldest = self.queue.oldest
        self.metrics.queue_depth.set(len(self.queue))
        self.metrics.queue_oldest_seconds.set(0 if oldest is None else self.clock() - oldest)

    def _count_troubles(self, entries: Collection[tuple[ObjectKey, Entry]]) -> None:
        told = Sums((key.kind, one) for key, entry in entries for one in entry.troubles)
        doomed = Sums((key.kind,) for key, entry in entries if entry.doomed)
        _show(self.metrics.troubles, told)
        _show(self.metrics.deletion_deadlines, doomed)

    def _add_up(self, entries: Collection[tuple[ObjectKey, Entry]]) -> None:
        gpus, records, costs = Sums(), Sums(), Counter[str]()
        self.metrics.schedule_last_success.clear()
        for key, entry in entries:
            figures = entry.figures
            if figures.last_success:
                self.metrics.schedule_last_success.labels(key.namespace, key.name).set(figures.last_success)
            if figures.gpus:
                gpus[key.namespace, key.kind, figures.model] += figures.gpus
            if figures.records:
                costs[key.namespace] += figures.cost_nano_usd
                records.update({(key.namespace, outcome): number for outcome, number in figures.records})
        _show(self.metrics.gpus, gpus)
        _show(self.metrics.batch_records, records)
        _show(self.metrics.batch_cost_usd, {(namespace,): nano / 1e9 for namespace, nano in costs.items()})

    def on_pass(self, done: Pass) -> None:
        kind, taken = done.taken.key.kind, done.taken
        waited = self.clock() - taken.since - done.seconds
        self.metrics.on_pass(kind, done.outcome, taken.priority.name.lower(), max(waited, 0), done.seconds)
        if done.wrote and taken.priority is Priority.EVENT:
            self.metrics.webhook_to_status_seconds.observe(self.clock() - taken.since)


def _show(gauge: Gauge, sums: Mapping[tuple[str, ...], float]) -> None:
    """Show exactly these sums."""
    gauge.clear()
    for labels, value in sums.items():
        gauge.labels(*labels).set(value)
