"""What is counted of the objects, for the alerts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from prometheus_client import CollectorRegistry

from relay_operator.api.meta import FINALIZER, ObjectKey
from relay_operator.collector import Collector
from relay_operator.engine.cache import Cache
from relay_operator.engine.queue import Queue
from relay_operator.observability.metrics import Metrics

if TYPE_CHECKING:
    from pydantic import JsonValue

    from relay_operator.engine.leftovers import Leftovers

NONE_LEFT = cast("Leftovers", SimpleNamespace(counts=lambda: dict.fromkeys(("kept", "orphan", "late"), 0)))


def put(cache: Cache, kind: str, name: str, version: int, *says: str, **status: JsonValue) -> None:
    """`says` are conditions as `Type=Status`, or `Type=Status=Reason`."""
    rows = [(*one.split("="), "Why")[:3] for one in says]
    conditions: JsonValue = [{"type": each, "status": holds, "reason": why} for each, holds, why in rows]
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
    collector.show()
    assert shown(metrics, "gpurelay_troubles") == {
        ("GpuPod", "Stalled"): 2,
        ("InferenceBatch", "Failed"): 1,
        ("CloudAccount", "WebhookReady"): 1,
    }
    assert shown(metrics, "gpurelay_deletion_deadlines") == {("GpuPod",): 1}
    put(cache, "GpuPod", "a", 2, "Ready=True")
    put(cache, "GpuPod", "b", 2, "Ready=True")
    collector.show()
    assert ("GpuPod", "Stalled") not in shown(metrics, "gpurelay_troubles")
    assert shown(metrics, "gpurelay_deletion_deadlines") == {}


@pytest.mark.parametrize("kept", [False, True], ids=["gone", "kept by another's finalizer"])
def test_what_is_being_deleted_counts_until_the_operator_lets_go_of_it(*, kept: bool) -> None:
    cache, metrics = Cache(), Metrics(CollectorRegistry())
    collector = Collector(cache, Queue[ObjectKey](lambda: 0.0), metrics, NONE_LEFT, lambda: 0.0)
    key = ObjectKey("GpuPod", "team-a", "a")
    metadata: dict[str, JsonValue] = {"name": "a", "namespace": "team-a", "uid": "1", "finalizers": [FINALIZER]}
    status: dict[str, JsonValue] = {"state": "running", "gpuModelId": "h100", "gpuCount": 2}
    cache.put(key, {"kind": "GpuPod", "metadata": metadata | {"resourceVersion": "1"}, "status": status})
    collector.show()
    assert shown(metrics, "gpurelay_deletions") == {}
    metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    cache.put(key, {"kind": "GpuPod", "metadata": metadata | {"resourceVersion": "2"}, "status": status})
    collector.show()
    assert shown(metrics, "gpurelay_deletions") == {("GpuPod",): 1}
    assert shown(metrics, "gpurelay_gpus") == {("GpuPod",): 2}
    if kept:
        metadata |= {"resourceVersion": "3", "finalizers": ["example.com/audit"]}
        cache.put(key, {"kind": "GpuPod", "metadata": metadata, "status": status})
    else:
        cache.drop(key)
    collector.show()
    assert shown(metrics, "gpurelay_deletions") == shown(metrics, "gpurelay_gpus") == {}


def test_creates_that_a_person_must_find_out_about_count_whatever_ready_says() -> None:
    cache, queue, metrics = Cache(), Queue[ObjectKey](lambda: 0.0), Metrics(CollectorRegistry())
    collector = Collector(cache, queue, metrics, NONE_LEFT, lambda: 0.0)
    unknown = "CreateOutcomeUnknown=True=CreateOutcomeUnknown"
    put(cache, "GpuPod", "a", 1, "Ready=False=CreateOutcomeUnknown", unknown)
    put(cache, "GpuPod", "b", 1, "Ready=False=WaitingForAccount", unknown)
    put(cache, "GpuPod", "c", 1, "Ready=False=Searching", "CreateOutcomeUnknown=True=Searching")
    collector.show()
    assert shown(metrics, "gpurelay_create_outcome_unknown") == {("GpuPod",): 2}
    put(cache, "GpuPod", "a", 2, "Ready=True")
    collector.show()
    assert shown(metrics, "gpurelay_create_outcome_unknown") == {("GpuPod",): 1}


def test_gpus_records_costs_and_successes_are_summed_over_what_exists() -> None:
    cache, queue, metrics = Cache(), Queue[ObjectKey](lambda: 0.0), Metrics(CollectorRegistry())
    collector = Collector(cache, queue, metrics, NONE_LEFT, lambda: 0.0)
    put(cache, "GpuPod", "a", 1, state="running", gpuModelId="h100", gpuCount=2)
    put(cache, "GpuPod", "b", 1, state="stopped", gpuModelId="h100", gpuCount=4)
    put(cache, "GpuCluster", "c", 1, state="running", gpuModelId="h100", gpuCount=2, replicas=3)
    put(cache, "GpuCluster", "stopped", 1, state="stopped", gpuModelId="h100", gpuCount=2, replicas=3)
    counts: JsonValue = {"total": 10, "completed": 6, "failed": 1}
    put(cache, "InferenceBatch", "d", 1, requestCounts=counts, usage={"costNanoUsd": 250_000_000})
    put(cache, "InferenceBatch", "e", 1, requestCounts=counts, usage={"costNanoUsd": 500_000_000})
    put(cache, "InferenceBatch", "f", 1, requestCounts="odd", usage=None)
    put(cache, "InferenceBatchSchedule", "nightly", 1, lastSuccessfulTime="2026-01-01T00:00:00Z")
    put(cache, "InferenceBatchSchedule", "never", 1)
    collector.show()
    value = metrics.registry.get_sample_value
    assert value("gpurelay_gpus", {"namespace": "team-a", "kind": "GpuPod", "model": "h100"}) == 2
    assert value("gpurelay_gpus", {"namespace": "team-a", "kind": "GpuCluster", "model": "h100"}) == 6
    records = {
        outcome: value("gpurelay_batch_records", {"namespace": "team-a", "outcome": outcome})
        for outcome in ("answered", "failed", "waiting")
    }
    assert records == {"answered": 12, "failed": 2, "waiting": 6}
    assert value("gpurelay_batch_cost_usd", {"namespace": "team-a"}) == 0.75
    success = "gpurelay_schedule_last_success_timestamp_seconds"
    assert value(success, {"namespace": "team-a", "schedule": "nightly"}) == 1_767_225_600
    assert value(success, {"namespace": "team-a", "schedule": "never"}) is None
    put(cache, "GpuPod", "a", 2, state="stopped", gpuModelId="h100", gpuCount=2)
    cache.drop(ObjectKey("InferenceBatch", "team-a", "d"))
    collector.show()
    assert value("gpurelay_gpus", {"namespace": "team-a", "kind": "GpuPod", "model": "h100"}) is None
    assert value("gpurelay_batch_cost_usd", {"namespace": "team-a"}) == 0.5


def shown(metrics: Metrics, name: str) -> dict[tuple[str, ...], float]:
    samples = (one for family in metrics.registry.collect() for one in family.samples if one.name == name)
    return {
        tuple(one.labels[label] for label in ("kind", "condition") if label in one.labels): one.value for one in samples
    }
