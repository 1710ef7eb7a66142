"""What is counted of the objects, for the alerts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from prometheus_client import CollectorRegistry

from relay_operator.api.meta import ObjectKey
from relay_operator.collector import Collector
from relay_operator.engine.cache import Cache
from relay_operator.engine.queue import Queue
from relay_operator.observability.metrics import Metrics

if TYPE_CHECKING:
    from pydantic import JsonValue

    from relay_operator.engine.leftovers import Leftovers

NONE_LEFT = cast("Leftovers", SimpleNamespace(counts=lambda: dict.fromkeys(("kept", "orphan", "late"), 0)))


def put(cache: Cache, kind: str, name: str, version: int, *says: str, **status: JsonValue) -> None:
    """`says` are conditions as `Type=Status`."""
    pairs = [one.split("=") for one in says]
    conditions: JsonValue = [{"type": each, "status": holds, "reason": "Why"} for each, holds in pairs]
    metadata: JsonValue = {"name": name, "namespace": "team-a", "uid": name, "resourceVersion": str(version)}
    cache.put(
        ObjectKey(kind, "team-a", name),
        {"kind": kind, "metadata": metadata, "status": {"conditions": conditions, **status}},
    )


def test_what_a_person_must_do_something_about_is_counted_by_kind_and_condition_until_it_is_over() -> None:
    cache, queue, metrics = Cache(), Queue[ObjectKey](lambda: 0.0), Metrics(CollectorRegistry())
    collector = Collector(cache, queue, metrics, NONE_LEFT, lambda: 0.0)
    put(cache, "GpuPod", "a", 1, "Ready=False", "Stalled=True")
    put(cache, "GpuPod", "b", 1, "Ready=False", "Stalled=True", deletionDeadline="2026-01-01T00:00:00Z")
    put(cache, "GpuPod", "c", 1, "Ready=False", "Reconciling=True")
    put(cache, "InferenceBatch", "d", 1, "Ready=False", "Failed=True")
    put(cache, "InferenceBatch", "e", 1, "Ready=True", "Complete=True")
    put(cache, "CloudAccount", "f", 1, "Ready=True", "WebhookReady=False", "Paused=True")
    collector.count()
    assert shown(metrics, "gpurelay_troubles") == {
        ("GpuPod", "Stalled"): 2,
        ("InferenceBatch", "Failed"): 1,
        ("CloudAccount", "WebhookReady"): 1,
    }
    assert shown(metrics, "gpurelay_deletion_deadlines") == {("GpuPod",): 1}
    put(cache, "GpuPod", "a", 2, "Ready=True")
    put(cache, "GpuPod", "b", 2, "Ready=True")
    collector.count()
    assert ("GpuPod", "Stalled") not in shown(metrics, "gpurelay_troubles")
    assert shown(metrics, "gpurelay_deletion_deadlines") == {}


def shown(metrics: Metrics, name: str) -> dict[tuple[str, ...], float]:
    samples = (one for family in metrics.registry.collect() for one in family.samples if one.name == name)
    return {
        tuple(one.labels[label] for label in ("kind", "condition") if label in one.labels): one.value for one in samples
    }
