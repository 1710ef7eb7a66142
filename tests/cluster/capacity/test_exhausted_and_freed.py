"""No room is a wait, not a failure: told, tried again when the cloud says so, with the next model if there is one."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.cluster.cloud_log import CREATE_CLUSTER, CREATE_POD, asked, count
from tests.support.eventually import eventually
from tests.support.manifests import condition, gpu_cluster, gpu_pod, stalled

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace

FULL = {
    "status": 503,
    "body": {"error": "No room now.", "code": "INSUFFICIENT_GPU_CAPACITY"},
    "headers": {"Retry-After": "3"},
}


def _waiting(item: Manifest | None) -> bool:
    return (
        condition(item, "Reconciling").get("reason") == "WaitingForCapacity"
        and condition(item, "CapacityAvailable").get("status") == "False"
    )


async def _take_away(workspace: Workspace, model: str) -> None:
    control = workspace.cloud.control
    for node in await control.nodes():
        if node["gpuModelId"] == model:
            await control.change_node(node["id"], removed=True)


async def test_a_pod_waits_for_room_and_becomes_ready_when_a_node_comes(brisk_private_workspace: Workspace) -> None:
    await _take_away(brisk_private_workspace, "rtx4090")
    await brisk_private_workspace.apply(gpu_pod(model="rtx4090"))
    told = await brisk_private_workspace.becomes("GpuPod", "trainer", _waiting)
    assert condition(told, "Ready")["status"] == "False"
    assert stalled(told) == ""
    assert "INSUFFICIENT_GPU_CAPACITY" in condition(told, "CapacityAvailable")["message"]
    assert "nextAttemptTime" in told["status"]

    await brisk_private_workspace.cloud.control.add_node("rtx4090", 8)
    ready = await brisk_private_workspace.becomes("GpuPod", "trainer")
    assert condition(ready, "CapacityAvailable") == {}
    log = await asked(brisk_private_workspace, CREATE_POD)
    assert [one["status"] for one in log].count(200) == 1
    assert len(await brisk_private_workspace.organization.billed()) == 1


async def test_a_cluster_waits_for_room_likewise(brisk_private_workspace: Workspace) -> None:
    await _take_away(brisk_private_workspace, "rtx4090")
    await brisk_private_workspace.apply(gpu_cluster(model="rtx4090", replicas=2))
    await brisk_private_workspace.becomes("GpuCluster", "llm", _waiting)
    await brisk_private_workspace.cloud.control.add_node("rtx4090", 8)
    ready = await brisk_private_workspace.becomes("GpuCluster", "llm")
    assert ready["status"]["readyReplicas"] == 2
    assert len(await brisk_private_workspace.organization.clusters()) == 1


async def test_the_next_model_of_the_list_is_taken_where_the_first_is_sold_out(
    brisk_private_workspace: Workspace,
) -> None:
    await _take_away(brisk_private_workspace, "h100")
    fallback = {"modelIds": ["h100", "a100"], "count": 2}
    await brisk_private_workspace.apply(gpu_pod(gpu=fallback))
    pod = await brisk_private_workspace.becomes("GpuPod", "trainer")
    assert pod["status"]["gpuModelId"] == "a100"
    assert condition(pod, "CapacityAvailable") == {}
    await brisk_private_workspace.apply(gpu_cluster(gpu={"modelIds": ["h100", "a100"], "count": 1}))
    cluster = await brisk_private_workspace.becomes("GpuCluster", "llm")
    assert cluster["status"]["gpuModelId"] == "a100"
    assert await count(brisk_private_workspace, CREATE_POD) == 2
    assert await count(brisk_private_workspace, CREATE_CLUSTER) == 2


async def test_all_models_sold_out_are_tried_in_turn_and_waited_for(brisk_private_workspace: Workspace) -> None:
    for model in ("h100", "a100"):
        await _take_away(brisk_private_workspace, model)
    await brisk_private_workspace.apply(gpu_pod(gpu={"modelIds": ["h100", "a100"], "count": 1}))
    await brisk_private_workspace.becomes("GpuPod", "trainer", lambda item: _waiting(item) and _agreed(item))
    await brisk_private_workspace.cloud.control.add_node("a100", 8)
    pod = await brisk_private_workspace.becomes("GpuPod", "trainer")
    assert pod["status"]["gpuModelId"] == "a100"


async def test_a_pod_that_waits_for_room_is_deleted_without_a_trace(brisk_private_workspace: Workspace) -> None:
    await _take_away(brisk_private_workspace, "rtx4090")
    await brisk_private_workspace.apply(gpu_pod(model="rtx4090"))
    await brisk_private_workspace.becomes("GpuPod", "trainer", _waiting)
    await brisk_private_workspace.kube.delete("GpuPod", "trainer")
    await brisk_private_workspace.is_gone("GpuPod", "trainer")
    assert await brisk_private_workspace.organization.billed() == []


async def test_retry_after_is_kept_to(workspace: Workspace) -> None:
    await workspace.becomes("CloudAccount", "default")
    control = workspace.cloud.control
    full = await control.fault(CREATE_POD, FULL, organizationId=workspace.organization.id)
    await workspace.apply(gpu_pod())
    await workspace.becomes("GpuPod", "trainer", _waiting)
    await eventually(lambda: count(workspace, CREATE_POD), lambda sent: sent >= 2, what="the second create")
    await control.end_fault(full)
    await workspace.becomes("GpuPod", "trainer")
    moments = [datetime.fromisoformat(one["at"]) for one in await asked(workspace, CREATE_POD)]
    assert all((later - sooner).total_seconds() >= 3 for sooner, later in pairwise(moments))


def _agreed(item: Manifest | None) -> bool:
    return "nextAttemptTime" in (item or {})["status"]
