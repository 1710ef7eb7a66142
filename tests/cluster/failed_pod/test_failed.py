"""A pod that failed says so in the cloud's own words; what happens next is what `recovery` says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.cloud_log import CREATE_POD, RESTART_VM, TERMINATE_VM, count
from tests.support.manifests import condition, gpu_pod, ready, stalled

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace

REASON = "Container image “pytorch/pytorch:2.9.0”: pull access denied;\texit code 137 (OOMKilled)"


async def _fail(workspace: Workspace, pod: Manifest, reason: str = REASON) -> None:
    await workspace.cloud.control.event(pod["status"]["id"], "fail", reason=reason)


async def test_the_status_reason_is_mirrored_verbatim_and_nothing_is_done(brisk_workspace: Workspace) -> None:
    await brisk_workspace.apply(gpu_pod())
    pod = await brisk_workspace.becomes("GpuPod", "trainer")
    await _fail(brisk_workspace, pod)
    told = await brisk_workspace.becomes("GpuPod", "trainer", lambda item: stalled(item) == "Failed")
    assert told["status"]["state"] == "failed"
    assert told["status"]["statusReason"] == REASON
    assert REASON in condition(told, "Stalled")["message"]
    assert condition(told, "Ready")["status"] == "False"
    assert await count(brisk_workspace, RESTART_VM, TERMINATE_VM) == 0
    assert await count(brisk_workspace, CREATE_POD) == 1

    await brisk_workspace.kube.annotate("GpuPod", "trainer", {"gpurelay.dev/restarted-at": "now"})
    healed = await brisk_workspace.becomes("GpuPod", "trainer")
    assert healed["status"]["id"] == pod["status"]["id"]
    assert "statusReason" not in healed["status"]


async def test_a_status_reason_beyond_all_bounds_is_cut_and_still_told(brisk_workspace: Workspace) -> None:
    await brisk_workspace.apply(gpu_pod())
    pod = await brisk_workspace.becomes("GpuPod", "trainer")
    await _fail(brisk_workspace, pod, "x" * 2_000)
    told = await brisk_workspace.becomes("GpuPod", "trainer", lambda item: stalled(item) == "Failed")
    assert told["status"]["statusReason"].startswith("x" * 1_000)


async def test_on_failed_restart_starts_it_again_with_its_volume(brisk_workspace: Workspace) -> None:
    await brisk_workspace.apply(gpu_pod(recovery={"onFailed": "Restart"}))
    pod = await brisk_workspace.becomes("GpuPod", "trainer")
    await _fail(brisk_workspace, pod)
    restarted = await brisk_workspace.becomes("GpuPod", "trainer", _restarted)
    assert restarted["status"]["id"] == pod["status"]["id"]
    assert await count(brisk_workspace, RESTART_VM) == 1
    assert await count(brisk_workspace, CREATE_POD) == 1


async def test_on_failed_recreate_makes_one_other_and_ends_the_first(brisk_workspace: Workspace) -> None:
    await brisk_workspace.apply(gpu_pod(recovery={"onFailed": "Recreate"}))
    pod = await brisk_workspace.becomes("GpuPod", "trainer")
    await _fail(brisk_workspace, pod)
    other = await brisk_workspace.becomes(
        "GpuPod", "trainer", lambda item: ready(item) and (item or {})["status"]["id"] != pod["status"]["id"]
    )
    assert (await brisk_workspace.organization.vm(pod["status"]["id"]))["status"] == "terminated"
    assert (await brisk_workspace.organization.vm(other["status"]["id"]))["status"] == "running"
    assert await count(brisk_workspace, CREATE_POD) == 2


async def test_a_failed_pod_is_deleted_like_any_other(brisk_workspace: Workspace) -> None:
    await brisk_workspace.apply(gpu_pod())
    pod = await brisk_workspace.becomes("GpuPod", "trainer")
    await _fail(brisk_workspace, pod)
    await brisk_workspace.becomes("GpuPod", "trainer", lambda item: stalled(item) == "Failed")
    await brisk_workspace.kube.delete("GpuPod", "trainer")
    await brisk_workspace.is_gone("GpuPod", "trainer")
    assert (await brisk_workspace.organization.vm(pod["status"]["id"]))["status"] == "terminated"


def _restarted(item: Manifest | None) -> bool:
    return ready(item) and (item or {})["status"].get("recoveries") == 1
