"""A pod starts where its volume is or not at all: what is in the way is told, and tried again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.cloud_log import RESTART_VM, asked, count
from tests.support.manifests import condition, gpu_pod, stalled

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.localcloud import Json
    from tests.support.workspace import Workspace


def _why(item: Manifest | None) -> str:
    reason: str = condition(item, "Reconciling").get("reason", "")
    return reason


def _told(item: Manifest | None) -> bool:
    """Whether the operator has seen the spec as it is."""
    return item is not None and item["status"]["observedGeneration"] == item["metadata"]["generation"]


async def _stopped(workspace: Workspace) -> tuple[Manifest, Json]:
    """A pod with 8 GPUs that was stopped, and the node of its volume."""
    await workspace.apply(gpu_pod(count=8))
    pod = await workspace.becomes("GpuPod", "trainer")
    node = await workspace.cloud.control.node_of(pod["status"]["id"])
    await workspace.kube.patch("GpuPod", "trainer", {"spec": {"powerState": "Stopped"}})
    stopped = await workspace.becomes("GpuPod", "trainer")
    assert stopped["status"]["state"] == "stopped"
    return stopped, node


async def _start(workspace: Workspace) -> None:
    await workspace.kube.patch("GpuPod", "trainer", {"spec": {"powerState": "Running"}})


async def test_a_busy_node_is_told_with_its_free_gpus_and_the_pod_starts_when_they_are_enough(
    brisk_private_workspace: Workspace,
) -> None:
    pod, node = await _stopped(brisk_private_workspace)
    organization = brisk_private_workspace.organization
    others = []
    while True:  # Until the other's GPUs are on the node of the volume.
        body = {"image": "busy", "gpuModelId": "l40s", "gpuCount": 3, "volumeGb": 10}
        others.append((await organization.call("POST", "/v1/pods", body))["id"])
        if (await brisk_private_workspace.cloud.control.node_of(others[-1]))["id"] == node["id"]:
            break
    await _start(brisk_private_workspace)
    told = await brisk_private_workspace.becomes("GpuPod", "trainer", lambda item: _why(item) == "PodNodeBusy")
    assert "5 free" in condition(told, "Reconciling")["message"]
    assert condition(told, "Ready")["status"] == "False"
    assert "nextAttemptTime" in told["status"]
    for other in others:
        await organization.call("POST", f"/v1/vms/{other}/terminate")
    started = await brisk_private_workspace.becomes("GpuPod", "trainer")
    assert started["status"]["id"] == pod["status"]["id"]
    statuses = [one["status"] for one in await asked(brisk_private_workspace, RESTART_VM)]
    assert statuses.count(200) == 1


async def test_an_offline_node_is_told_and_the_pod_starts_when_it_returns(brisk_private_workspace: Workspace) -> None:
    _, node = await _stopped(brisk_private_workspace)
    control = brisk_private_workspace.cloud.control
    await control.change_node(node["id"], reporting=False)
    await _start(brisk_private_workspace)
    await brisk_private_workspace.becomes("GpuPod", "trainer", lambda item: _why(item) == "PodNodeOffline")
    await control.change_node(node["id"], reporting=True)
    await brisk_private_workspace.becomes("GpuPod", "trainer")


async def test_a_pod_still_stopping_is_started_when_it_has_stopped(brisk_private_workspace: Workspace) -> None:
    await brisk_private_workspace.cloud.control.settings(stopSeconds=3600)
    await brisk_private_workspace.apply(gpu_pod())
    pod = await brisk_private_workspace.becomes("GpuPod", "trainer")
    await brisk_private_workspace.kube.patch("GpuPod", "trainer", {"spec": {"powerState": "Stopped"}})
    await brisk_private_workspace.becomes(
        "GpuPod", "trainer", lambda item: (item or {})["status"].get("state") == "stopping"
    )
    await _start(brisk_private_workspace)
    await brisk_private_workspace.becomes("GpuPod", "trainer", _told)
    await brisk_private_workspace.cloud.control.advance(3600)
    started = await brisk_private_workspace.becomes("GpuPod", "trainer")
    assert started["status"]["id"] == pod["status"]["id"]
    assert await count(brisk_private_workspace, RESTART_VM) >= 1


async def test_a_node_without_infiniband_stalls_the_start_and_says_whom_to_ask(
    brisk_private_workspace: Workspace,
) -> None:
    _, node = await _stopped(brisk_private_workspace)
    control, organization = brisk_private_workspace.cloud.control, brisk_private_workspace.organization
    await control.change_organization(organization.id, infiniband=True)
    await control.change_node(node["id"], infinibandAgent=False)
    await _start(brisk_private_workspace)
    await brisk_private_workspace.becomes("GpuPod", "trainer", lambda item: stalled(item) == "PodNodeNoInfiniband")
    await control.change_node(node["id"], infinibandAgent=True)
    await brisk_private_workspace.becomes("GpuPod", "trainer")
