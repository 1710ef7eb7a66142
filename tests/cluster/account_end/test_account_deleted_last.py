"""An account outlives what depends on it, and takes its Secret and its webhook subscription along."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.cloud_side import as_owner, new_key, revoke, webhooks
from tests.support.manifests import SECRET, api_key_secret, condition, gpu_pod, stalled

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace


async def test_account_and_secret_stay_until_the_last_pod_is_gone_and_then_go(brisk_workspace: Workspace) -> None:
    kube, organization = brisk_workspace.kube, brisk_workspace.organization
    await brisk_workspace.becomes("CloudAccount", "default")
    assert len(await webhooks(organization)) == 1
    await brisk_workspace.apply(gpu_pod())
    pod = await brisk_workspace.becomes("GpuPod", "trainer")

    await kube.delete("CloudAccount", "default")
    await kube.delete("Secret", SECRET)
    told = await brisk_workspace.becomes("CloudAccount", "default", lambda item: stalled(item) == "InUse")
    assert "1 GpuPods" in condition(told, "Stalled")["message"]
    assert await kube.find("Secret", SECRET)

    # The key is still good for what depends on it: a change, and then the end.
    await kube.patch("GpuPod", "trainer", {"spec": {"public": True}})
    await brisk_workspace.becomes("GpuPod", "trainer", lambda item: (item or {})["status"].get("public") is True)
    await kube.delete("GpuPod", "trainer")
    await brisk_workspace.is_gone("GpuPod", "trainer")
    await brisk_workspace.is_gone("CloudAccount", "default")
    await brisk_workspace.is_gone("Secret", SECRET)

    assert (await organization.vm(pod["status"]["id"]))["status"] == "terminated"
    assert await webhooks(organization) == []


async def test_a_deleted_account_that_nothing_uses_goes_at_once_and_unsubscribes(brisk_workspace: Workspace) -> None:
    await brisk_workspace.becomes("CloudAccount", "default")
    assert len(await webhooks(brisk_workspace.organization)) == 1
    await brisk_workspace.kube.delete("CloudAccount", "default")
    await brisk_workspace.is_gone("CloudAccount", "default")
    assert await webhooks(brisk_workspace.organization) == []
    secret = await brisk_workspace.kube.get("Secret", SECRET)
    assert "finalizers" not in secret["metadata"]


async def test_an_account_whose_key_was_revoked_waits_for_its_pod_and_says_so(brisk_workspace: Workspace) -> None:
    kube, organization = brisk_workspace.kube, brisk_workspace.organization
    await brisk_workspace.apply(gpu_pod())
    pod = await brisk_workspace.becomes("GpuPod", "trainer")
    await revoke(organization, organization.api_key)
    await kube.delete("GpuPod", "trainer")
    await kube.delete("CloudAccount", "default")

    def told(item: Manifest | None) -> bool:
        return stalled(item) == "AccountUnauthorized" and "abandon" in condition(item, "Stalled")["message"]

    await brisk_workspace.becomes("GpuPod", "trainer", told)
    assert await kube.find("CloudAccount", "default")

    await kube.apply(api_key_secret(await new_key(organization)))
    await brisk_workspace.is_gone("GpuPod", "trainer")
    await brisk_workspace.is_gone("CloudAccount", "default")
    assert (await as_owner(organization).vm(pod["status"]["id"]))["status"] == "terminated"
