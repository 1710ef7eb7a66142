"""What somebody else ended is told, and recreated only where the spec says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.cloud_log import CREATE_CLUSTER, CREATE_POD, RESTART_VM, count
from tests.support.eventually import eventually
from tests.support.manifests import condition, gpu_cluster, gpu_pod, ready, stalled

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace


def _ended(item: Manifest | None) -> bool:
    return stalled(item) == "TerminatedExternally"


async def test_a_pod_terminated_in_the_console_stalls_and_no_other_is_made(workspace: Workspace) -> None:
    await workspace.apply(gpu_pod())
    pod = await workspace.becomes("GpuPod", "trainer")
    await workspace.organization.call("POST", f"/v1/vms/{pod['status']['id']}/terminate")
    told = await workspace.becomes("GpuPod", "trainer", _ended)
    assert condition(told, "Ready")["status"] == "False"
    assert "onTerminated" in condition(told, "Stalled")["message"]
    assert told["status"]["state"] == "terminated"
    assert await count(workspace, CREATE_POD) == 1
    await workspace.kube.delete("GpuPod", "trainer")
    await workspace.is_gone("GpuPod", "trainer")


async def test_a_pod_terminated_in_the_console_is_made_anew_once_where_asked(workspace: Workspace) -> None:
    await workspace.apply(gpu_pod(recovery={"onTerminated": "Recreate"}))
    pod = await workspace.becomes("GpuPod", "trainer")
    await workspace.organization.call("POST", f"/v1/vms/{pod['status']['id']}/terminate")
    other = await workspace.becomes(
        "GpuPod", "trainer", lambda item: ready(item) and (item or {})["status"]["id"] != pod["status"]["id"]
    )
    assert other["status"]["attempt"] == 2
    assert await count(workspace, CREATE_POD) == 2


async def test_asking_for_recreation_afterwards_is_enough(workspace: Workspace) -> None:
    await workspace.apply(gpu_pod())
    pod = await workspace.becomes("GpuPod", "trainer")
    await workspace.organization.call("POST", f"/v1/vms/{pod['status']['id']}/terminate")
    await workspace.becomes("GpuPod", "trainer", _ended)
    await workspace.apply(gpu_pod(recovery={"onTerminated": "Recreate"}))
    other = await workspace.becomes("GpuPod", "trainer")
    assert other["status"]["id"] != pod["status"]["id"]


async def test_a_cluster_terminated_in_the_console_stalls_and_no_other_is_made(brisk_workspace: Workspace) -> None:
    await brisk_workspace.apply(gpu_cluster(replicas=1))
    cluster = await brisk_workspace.becomes("GpuCluster", "llm")
    await brisk_workspace.organization.call("POST", f"/v1/clusters/{cluster['status']['id']}/terminate")
    told = await brisk_workspace.becomes("GpuCluster", "llm", _ended)
    assert told["status"]["id"] == cluster["status"]["id"]
    assert await count(brisk_workspace, CREATE_CLUSTER) == 1
    await brisk_workspace.kube.delete("GpuCluster", "llm")
    await brisk_workspace.is_gone("GpuCluster", "llm")


async def test_a_pod_stopped_in_the_console_is_started_again(workspace: Workspace) -> None:
    await workspace.apply(gpu_pod())
    pod = await workspace.becomes("GpuPod", "trainer")
    await workspace.organization.call("POST", f"/v1/vms/{pod['status']['id']}/stop")
    what = "it is started again"
    await eventually(lambda: count(workspace, RESTART_VM), lambda restarts: restarts == 1, what=what)
    again = await workspace.becomes("GpuPod", "trainer")
    assert again["status"]["id"] == pod["status"]["id"]
    assert again["status"]["state"] == "running"
