"""Without webhooks everything still comes about, by polling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.cloud_side import webhooks
from tests.support.manifests import gpu_cluster, gpu_pod, stalled

if TYPE_CHECKING:
    from tests.support.workspace import Workspace


async def test_polling_makes_up_for_deliveries_that_are_lost(workspace: Workspace) -> None:
    await workspace.becomes("CloudAccount", "default")
    await workspace.cloud.control.fault("webhook", {"lose": True}, organizationId=workspace.organization.id)
    await workspace.apply(gpu_pod())
    await workspace.apply(gpu_cluster())
    await workspace.becomes("GpuPod", "trainer")
    await workspace.becomes("GpuCluster", "llm")


async def test_polling_sees_what_changes_later_without_a_word(brisk_workspace: Workspace) -> None:
    await brisk_workspace.becomes("CloudAccount", "default")
    await brisk_workspace.cloud.control.fault("webhook", {"lose": True}, organizationId=brisk_workspace.organization.id)
    await brisk_workspace.apply(gpu_pod())
    pod = await brisk_workspace.becomes("GpuPod", "trainer")
    await brisk_workspace.organization.call("POST", f"/v1/vms/{pod['status']['id']}/terminate")
    await brisk_workspace.becomes("GpuPod", "trainer", lambda item: stalled(item) == "TerminatedExternally")


async def test_an_account_that_wants_no_webhooks_gets_none_and_its_pods_become_ready(
    brisk_workspace: Workspace,
) -> None:
    await brisk_workspace.becomes("CloudAccount", "default", lambda item: (item or {})["status"].get("webhook"))
    await brisk_workspace.kube.patch("CloudAccount", "default", {"spec": {"webhook": {"enabled": False}}})
    await brisk_workspace.becomes("CloudAccount", "default", lambda item: "webhook" not in (item or {})["status"])
    assert await webhooks(brisk_workspace.organization) == []
    await brisk_workspace.apply(gpu_pod())
    await brisk_workspace.becomes("GpuPod", "trainer")
