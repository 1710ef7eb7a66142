"""A cluster whose replicas load, maybe for ever, costs something already: what people ask of it is done meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio

from tests.cluster.cloud_log import CREATE_CLUSTER, SCALE_CLUSTER, STOP_CLUSTER, changes
from tests.support.manifests import condition, gpu_cluster, ready, with_spec

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace


@pytest_asyncio.fixture
async def slow(brisk_private_workspace: Workspace) -> Workspace:
    """Its cloud's replicas are not healthy for a long time."""
    await brisk_private_workspace.cloud.control.settings(startSeconds=3600)
    return brisk_private_workspace


async def _loads(workspace: Workspace, **spec: object) -> Manifest:
    await workspace.apply(with_spec(gpu_cluster("one", replicas=3), **spec))
    return await workspace.becomes("GpuCluster", "one", _is_paid_while_it_loads)


def _is_paid_while_it_loads(item: Manifest | None) -> bool:
    told = (item or {}).get("status", {})
    return told.get("state") == "provisioning" and "payingPerHourCents" in told


def _stopped(reason: str) -> Callable[[Manifest | None], bool]:
    return lambda item: ready(item) and condition(item, "Ready")["reason"] == reason


async def test_it_is_stopped(slow: Workspace) -> None:
    loading = await _loads(slow)
    assert loading["status"]["payingPerHourCents"] == loading["status"]["pricePerHourCents"]
    await slow.kube.patch("GpuCluster", "one", {"spec": {"powerState": "Stopped"}})
    stopped = await slow.becomes("GpuCluster", "one", _stopped("Stopped"))
    assert (stopped["status"]["state"], "payingPerHourCents" in stopped["status"]) == ("stopped", False)
    assert await changes(slow) == [CREATE_CLUSTER, STOP_CLUSTER]


async def test_its_time_runs(slow: Workspace) -> None:
    loading = await _loads(slow, lifetime={"maxRuntimeSeconds": 3600})
    assert loading["status"]["runningSince"] >= loading["metadata"]["creationTimestamp"]
    begun = {"status": {"runningSince": "2026-01-01T00:00:00Z"}}
    await slow.kube.patch("GpuCluster", "one", begun, subresource="status")
    await slow.kube.annotate("GpuCluster", "one", {"gpurelay.dev/reconcile-at": "a day later"})
    await slow.becomes("GpuCluster", "one", _stopped("MaxRuntimeReached"))
    assert await changes(slow) == [CREATE_CLUSTER, STOP_CLUSTER]


async def test_it_is_made_smaller(slow: Workspace) -> None:
    cloud_id = (await _loads(slow))["status"]["id"]
    await slow.kubectl("scale", "gpucluster/one", "--replicas=1")
    await slow.becomes("GpuCluster", "one", lambda item: (item or {})["status"]["replicas"] == 1)
    assert (await slow.organization.cluster(cloud_id))["replicaCount"] == 1
    assert await changes(slow) == [CREATE_CLUSTER, SCALE_CLUSTER]


async def test_it_is_stopped_before_its_object_goes(slow: Workspace) -> None:
    cloud_id = (await _loads(slow, deletionPolicy="Stop"))["status"]["id"]
    await slow.kube.delete("GpuCluster", "one")
    await slow.is_gone("GpuCluster", "one")
    assert (await slow.organization.cluster(cloud_id))["status"] == "stopped"
    assert await changes(slow) == [CREATE_CLUSTER, STOP_CLUSTER]
