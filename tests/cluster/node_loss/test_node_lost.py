"""A node that falls silent interrupts its pods; they run again when it returns, and are gone after seven days."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from tests.cluster.cloud_log import CREATE_POD, RESTART_VM, STOP_VM, TERMINATE_VM, count
from tests.support.manifests import condition, gpu_pod, stalled

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace

GRACE = 180 + 1
WEEK = 7 * 86_400


def _interrupted(item: Manifest | None) -> bool:
    return condition(item, "Reconciling").get("reason") == "Interrupted"


def _ended(item: Manifest | None) -> bool:
    return stalled(item) == "TerminatedExternally"


def _heeded(item: Manifest | None) -> bool:
    return bool((item or {})["status"].get("reconcileAt") == "a day later")


async def _lose(workspace: Workspace, pod: Manifest) -> str:
    """Its node falls silent, and the grace passes; answers the node's id."""
    control = workspace.cloud.control
    node_id: str = (await control.node_of(pod["status"]["id"]))["id"]
    await control.change_node(node_id, reporting=False)
    await control.advance(GRACE)
    return node_id


async def test_an_interruption_tells_since_when_and_until_when_and_ends_with_the_nodes_return(
    brisk_private_workspace: Workspace,
) -> None:
    await brisk_private_workspace.apply(gpu_pod())
    pod = await brisk_private_workspace.becomes("GpuPod", "trainer")
    node_id = await _lose(brisk_private_workspace, pod)
    told = await brisk_private_workspace.becomes("GpuPod", "trainer", _interrupted)
    assert condition(told, "Ready")["status"] == "False"
    assert stalled(told) == ""
    since, deadline = told["status"]["stateSince"], told["status"]["deletionDeadline"]
    assert datetime.fromisoformat(deadline) - datetime.fromisoformat(since) == timedelta(days=7)
    message = condition(told, "Reconciling")["message"]
    assert since in message
    assert deadline in message

    await brisk_private_workspace.cloud.control.change_node(node_id, reporting=True)
    back = await brisk_private_workspace.becomes("GpuPod", "trainer")
    assert back["status"]["id"] == pod["status"]["id"]
    assert "deletionDeadline" not in back["status"]
    assert await count(brisk_private_workspace, RESTART_VM, STOP_VM, TERMINATE_VM) == 0


async def test_a_node_away_for_seven_days_ends_the_pod_and_no_other_is_made(
    brisk_private_workspace: Workspace,
) -> None:
    await brisk_private_workspace.apply(gpu_pod())
    pod = await brisk_private_workspace.becomes("GpuPod", "trainer")
    await _lose(brisk_private_workspace, pod)
    await brisk_private_workspace.becomes("GpuPod", "trainer", _interrupted)
    await brisk_private_workspace.cloud.control.advance(WEEK)
    told = await brisk_private_workspace.becomes("GpuPod", "trainer", _ended)
    assert condition(told, "Ready")["status"] == "False"
    assert told["status"]["id"] == pod["status"]["id"]
    # A day later the cloud does not even remember it: that is told in the same way.
    await brisk_private_workspace.cloud.control.advance(86_400 + 60)
    await brisk_private_workspace.kube.annotate("GpuPod", "trainer", {"gpurelay.dev/reconcile-at": "a day later"})
    await brisk_private_workspace.becomes("GpuPod", "trainer", lambda item: _heeded(item) and _ended(item))
    assert await count(brisk_private_workspace, CREATE_POD) == 1
    await brisk_private_workspace.kube.delete("GpuPod", "trainer")
    await brisk_private_workspace.is_gone("GpuPod", "trainer")


async def test_on_terminated_recreate_makes_exactly_one_other_after_seven_days(
    brisk_private_workspace: Workspace,
) -> None:
    await brisk_private_workspace.apply(gpu_pod(recovery={"onTerminated": "Recreate"}))
    pod = await brisk_private_workspace.becomes("GpuPod", "trainer")
    await _lose(brisk_private_workspace, pod)
    await brisk_private_workspace.becomes("GpuPod", "trainer", _interrupted)
    billed = {each["resourceId"] for each in await brisk_private_workspace.organization.billed()}
    await brisk_private_workspace.cloud.control.advance(WEEK)  # the month may end with it
    other = await _another(brisk_private_workspace, pod)
    assert other["status"]["attempt"] == 2
    assert await count(brisk_private_workspace, CREATE_POD) == 2
    billed |= {each["resourceId"] for each in await brisk_private_workspace.organization.billed()}
    assert billed == {pod["status"]["id"], other["status"]["id"]}


async def test_on_interrupted_recreate_ends_the_old_one_and_makes_one_elsewhere(
    brisk_private_workspace: Workspace,
) -> None:
    recovery = {"onInterrupted": "Recreate", "afterSeconds": 1}
    await brisk_private_workspace.apply(gpu_pod(recovery=recovery))
    pod = await brisk_private_workspace.becomes("GpuPod", "trainer")
    node_id = await _lose(brisk_private_workspace, pod)
    other = await _another(brisk_private_workspace, pod)
    assert (await brisk_private_workspace.organization.vm(pod["status"]["id"]))["status"] == "terminated"
    node = await brisk_private_workspace.cloud.control.node_of(other["status"]["id"])
    assert node["id"] != node_id
    assert await count(brisk_private_workspace, CREATE_POD) == 2
    assert await count(brisk_private_workspace, TERMINATE_VM) == 1


async def test_a_node_removed_from_the_platform_ends_the_pod_at_once(brisk_private_workspace: Workspace) -> None:
    await brisk_private_workspace.apply(gpu_pod())
    pod = await brisk_private_workspace.becomes("GpuPod", "trainer")
    control = brisk_private_workspace.cloud.control
    await control.change_node((await control.node_of(pod["status"]["id"]))["id"], removed=True)
    told = await brisk_private_workspace.becomes("GpuPod", "trainer", _ended)
    assert "removed" in told["status"]["statusReason"]
    assert await count(brisk_private_workspace, CREATE_POD) == 1


async def test_an_interrupted_pod_can_be_stopped_and_deleted(brisk_private_workspace: Workspace) -> None:
    await brisk_private_workspace.apply(gpu_pod())
    pod = await brisk_private_workspace.becomes("GpuPod", "trainer")
    await _lose(brisk_private_workspace, pod)
    await brisk_private_workspace.becomes("GpuPod", "trainer", _interrupted)
    await brisk_private_workspace.kube.patch("GpuPod", "trainer", {"spec": {"powerState": "Stopped"}})
    stopped = await brisk_private_workspace.becomes("GpuPod", "trainer")
    assert stopped["status"]["state"] == "stopped"
    await brisk_private_workspace.kube.delete("GpuPod", "trainer")
    await brisk_private_workspace.is_gone("GpuPod", "trainer")
    assert (await brisk_private_workspace.organization.vm(pod["status"]["id"]))["status"] == "terminated"


async def _another(workspace: Workspace, pod: Manifest) -> Manifest:
    """Waits until the object is Ready with another id than this pod's."""
    await workspace.becomes("GpuPod", "trainer", lambda item: (item or {})["status"].get("id") != pod["status"]["id"])
    other = await workspace.becomes("GpuPod", "trainer")
    assert other["status"]["id"] != pod["status"]["id"]
    return other
