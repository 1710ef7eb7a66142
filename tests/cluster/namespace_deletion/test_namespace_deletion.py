"""A namespace is deleted with everything in it, the account and its key included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.cloud_log import CREATE_POD, CREATES, changes, left
from tests.support.eventually import eventually
from tests.support.manifests import gpu_cluster, gpu_pod

if TYPE_CHECKING:
    from tests.support.workspace import Workspace

PODS, CLUSTERS = ("first", "second", "third"), ("serving", "spare")


async def _delete_namespace(workspace: Workspace) -> None:
    kube = workspace.kube
    await kube.delete("Namespace", workspace.namespace)
    look = kube.looking_at("Namespace", workspace.namespace)
    await eventually(look, lambda found: found is None, what="the namespace is gone")


async def test_live_pods_and_clusters_end_in_the_cloud_and_the_namespace_goes(workspace: Workspace) -> None:
    for name in PODS:
        await workspace.apply(gpu_pod(name))
    for name in CLUSTERS:
        await workspace.apply(gpu_cluster(name, replicas=1))
    pods = [(await workspace.becomes("GpuPod", name))["status"]["id"] for name in PODS]
    clusters = [(await workspace.becomes("GpuCluster", name))["status"]["id"] for name in CLUSTERS]
    await _delete_namespace(workspace)
    states = [(await workspace.organization.vm(one))["status"] for one in pods]
    states += [(await workspace.organization.cluster(one))["status"] for one in clusters]
    assert states == ["terminated"] * 5
    assert await left(workspace) == []


async def test_what_is_being_created_at_that_moment_is_not_left_behind(workspace: Workspace) -> None:
    control, organization = workspace.cloud.control, workspace.organization
    await workspace.becomes("CloudAccount", "default")
    fault = await control.fault(CREATE_POD, {"delaySeconds": 3}, organizationId=organization.id, count=1)
    for name in PODS:
        await workspace.apply(gpu_pod(name))
    for name in CLUSTERS:
        await workspace.apply(gpu_cluster(name, replicas=1))
    await eventually(lambda: control.was_met(fault), what="a create is under way")
    await _delete_namespace(workspace)

    async def ended() -> bool:
        asked = await changes(workspace)
        created = sum(one in CREATES for one in asked)
        return created > 0 and len(asked) == 2 * created and await left(workspace) == []

    await eventually(ended, what="whatever was created is terminated, once, and nothing is left in the cloud")


async def test_the_webhook_subscription_ends_with_the_namespace(workspace: Workspace) -> None:
    await workspace.becomes("CloudAccount", "default")
    await workspace.apply(gpu_pod())
    await workspace.becomes("GpuPod", "trainer")
    await _delete_namespace(workspace)
    organization = workspace.organization
    assert (await organization.call("GET", f"/v1/orgs/{organization.id}/webhooks"))["items"] == []
