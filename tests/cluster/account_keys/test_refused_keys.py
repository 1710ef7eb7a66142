"""Keys that work, but not for this: of another organization, or lacking a scope."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.cloud_log import CREATE_CLUSTER, CREATE_POD, count
from tests.cluster.cloud_side import as_owner, new_key
from tests.support.manifests import api_key_secret, condition, gpu_cluster, gpu_pod, ready, stalled

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace


def _forbidden(item: Manifest | None) -> bool:
    return stalled(item) == "AccountForbidden"


def _limited(item: Manifest | None) -> bool:
    return bool((item or {}).get("status", {}).get("scopes") == ["clusters:read", "vms:read"])


async def test_a_key_of_another_organization_is_never_asked_about_this_ones_pods(brisk_workspace: Workspace) -> None:
    kube, control = brisk_workspace.kube, brisk_workspace.cloud.control
    await brisk_workspace.apply(gpu_pod())
    running = await brisk_workspace.becomes("GpuPod", "trainer")
    other = await control.create_organization("other")
    await kube.apply(api_key_secret(other.api_key))
    account = await brisk_workspace.becomes("CloudAccount", "default", _forbidden)
    message = condition(account, "Stalled")["message"]
    assert other.id in message
    assert brisk_workspace.organization.id in message
    told = await brisk_workspace.becomes("GpuPod", "trainer", _forbidden)
    assert condition(told, "Ready")["status"] == "True"
    assert told["status"]["id"] == running["status"]["id"]
    assert {one["path"] for one in await control.requests(organization=other)} == {"/v1/whoami"}

    await kube.apply(api_key_secret(brisk_workspace.organization.api_key))
    await brisk_workspace.becomes("GpuPod", "trainer", lambda item: ready(item) and not stalled(item))
    assert await count(brisk_workspace, CREATE_POD) == 1


async def test_a_key_lacking_a_scope_says_which_and_another_key_heals(brisk_workspace: Workspace) -> None:
    kube, organization = brisk_workspace.kube, brisk_workspace.organization
    await kube.apply(api_key_secret(await new_key(organization, ["vms:read", "clusters:read"])))
    await brisk_workspace.becomes("CloudAccount", "default", _limited)
    await brisk_workspace.apply(gpu_pod())
    await brisk_workspace.apply(gpu_cluster(replicas=1))
    pod = await brisk_workspace.becomes("GpuPod", "trainer", _forbidden)
    assert "vms:write" in condition(pod, "Stalled")["message"]
    assert condition(pod, "Ready")["status"] == "False"
    assert "id" not in pod["status"]
    cluster = await brisk_workspace.becomes("GpuCluster", "llm", _forbidden)
    assert "clusters:write" in condition(cluster, "Stalled")["message"]

    await kube.apply(api_key_secret(organization.api_key))
    await brisk_workspace.becomes("GpuPod", "trainer")
    await brisk_workspace.becomes("GpuCluster", "llm")
    log = await brisk_workspace.cloud.control.requests(organization=organization)
    for operation in (CREATE_POD, CREATE_CLUSTER):
        assert [one["status"] for one in log if one["operation"] == operation].count(200) == 1


async def test_a_scope_lost_while_a_pod_runs_is_told_and_nothing_is_given_up(brisk_workspace: Workspace) -> None:
    kube, organization = brisk_workspace.kube, brisk_workspace.organization
    await brisk_workspace.apply(gpu_pod())
    running = await brisk_workspace.becomes("GpuPod", "trainer")
    await kube.apply(api_key_secret(await new_key(organization, ["inference"])))
    told = await brisk_workspace.becomes("GpuPod", "trainer", _forbidden)
    assert "vms:read" in condition(told, "Stalled")["message"]
    assert condition(told, "Ready")["status"] == "True"
    assert (await as_owner(organization).vm(running["status"]["id"]))["status"] == "running"
    await kube.apply(api_key_secret(organization.api_key))
    healed = await brisk_workspace.becomes("GpuPod", "trainer", lambda item: ready(item) and not stalled(item))
    assert healed["status"]["id"] == running["status"]["id"]
