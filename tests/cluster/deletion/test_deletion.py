"""Deleting an object: its resource ends first, and nothing that costs money is left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.cloud_log import BY_ITSELF, CREATE_POD, CREATES, TERMINATE_VM, changes, count, left
from tests.cluster.cloud_side import state_of
from tests.support.eventually import PATIENCE_SECONDS, eventually
from tests.support.manifests import condition, gpu_cluster, gpu_pod

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace

ABANDON, PAUSED = "gpurelay.dev/abandon", "gpurelay.dev/paused"
FINALIZER = "gpurelay.dev/cloud-resource"
KINDS = pytest.mark.parametrize(
    ("kind", "manifest"), [("GpuPod", gpu_pod("one")), ("GpuCluster", gpu_cluster("one"))], ids=["pod", "cluster"]
)


@KINDS
async def test_its_resource_is_terminated_once(workspace: Workspace, kind: str, manifest: Manifest) -> None:
    await workspace.apply(manifest)
    cloud_id = (await workspace.becomes(kind, "one"))["status"]["id"]
    await workspace.kubectl("delete", kind.lower(), "one", f"--timeout={PATIENCE_SECONDS:g}s")
    assert await state_of(workspace, kind, cloud_id) == "terminated"
    create, _, _, _, terminate = BY_ITSELF[kind]
    assert await changes(workspace) == [create, terminate]


@KINDS
async def test_the_object_stays_until_the_cloud_took_the_termination(
    workspace: Workspace, kind: str, manifest: Manifest
) -> None:
    await workspace.apply(manifest)
    cloud_id = (await workspace.becomes(kind, "one"))["status"]["id"]
    control, terminate = workspace.cloud.control, BY_ITSELF[kind][4]
    fault = await control.fault(terminate, {"status": 503}, organizationId=workspace.organization.id)
    await workspace.kube.delete(kind, "one")
    await eventually(lambda: count(workspace, terminate), what="a termination was tried")

    def told(item: Manifest | None) -> bool:
        return condition(item, "Ready").get("status") == "False" and FINALIZER in (item or {})["metadata"]["finalizers"]

    await workspace.becomes(kind, "one", told)
    await control.call("DELETE", f"/faults/{fault}")
    await workspace.is_gone(kind, "one")
    assert await state_of(workspace, kind, cloud_id) == "terminated"


async def test_a_stopped_pod_is_terminated_and_its_volume_with_it(workspace: Workspace) -> None:
    await workspace.apply(gpu_pod("one", powerState="Stopped"))
    cloud_id = (await workspace.becomes("GpuPod", "one"))["status"]["id"]
    await workspace.kube.delete("GpuPod", "one")
    await workspace.is_gone("GpuPod", "one")
    assert await state_of(workspace, "GpuPod", cloud_id) == "terminated"


@KINDS
async def test_one_that_is_still_deploying_is_terminated(
    private_cloud_workspace: Workspace, kind: str, manifest: Manifest
) -> None:
    workspace = private_cloud_workspace
    await workspace.cloud.control.settings(placementSeconds=86_400)
    await workspace.apply(manifest)
    item = await workspace.becomes(kind, "one", lambda item: item and item.get("status", {}).get("id"))
    assert condition(item, "Ready")["reason"] == "Deploying"
    await workspace.kube.delete(kind, "one")
    await workspace.is_gone(kind, "one")
    assert await state_of(workspace, kind, item["status"]["id"]) == "terminated"


async def test_objects_deleted_the_moment_they_are_applied_leave_nothing(workspace: Workspace) -> None:
    control, organization = workspace.cloud.control, workspace.organization
    await workspace.becomes("CloudAccount", "default")
    fault = await control.fault(CREATE_POD, {"delaySeconds": 3}, organizationId=organization.id, count=1)
    await workspace.apply(gpu_pod("slow"))
    await eventually(lambda: control.was_met(fault), what="a create is under way")
    await workspace.kube.delete("GpuPod", "slow")
    names = [f"brief-{number}" for number in range(4)]
    for name in names:
        await workspace.apply(gpu_pod(name))
        await workspace.kube.delete("GpuPod", name)
        await workspace.apply(gpu_cluster(name, replicas=1))
        await workspace.kube.delete("GpuCluster", name)
    await workspace.is_gone("GpuPod", "slow")
    for name in names:
        await workspace.is_gone("GpuPod", name)
        await workspace.is_gone("GpuCluster", name)

    async def ended() -> bool:
        asked = await changes(workspace)
        created = sum(one in CREATES for one in asked)
        return created > 0 and len(asked) == 2 * created and await left(workspace) == []

    # An object may go before its finalizer holds it: its resource ends a little later then.
    await eventually(ended, what="whatever was created is terminated, once, and nothing is left in the cloud")


async def test_what_was_never_created_needs_no_account_to_go(workspace: Workspace) -> None:
    await workspace.apply(gpu_pod("one", accountRef={"name": "nowhere"}))
    waiting = await workspace.becomes("GpuPod", "one", lambda pod: condition(pod, "Ready"))
    assert condition(waiting, "Ready")["reason"] == "WaitingForAccount"
    await workspace.kube.delete("GpuPod", "one")
    await workspace.is_gone("GpuPod", "one")
    assert await changes(workspace) == []


@KINDS
async def test_abandon_lets_go_and_touches_nothing(workspace: Workspace, kind: str, manifest: Manifest) -> None:
    await workspace.apply(manifest)
    cloud_id = (await workspace.becomes(kind, "one"))["status"]["id"]
    await workspace.kube.annotate(kind, "one", {ABANDON: "true"})
    await workspace.kube.delete(kind, "one")
    await workspace.is_gone(kind, "one")
    assert await state_of(workspace, kind, cloud_id) == "running"
    assert await changes(workspace) == [BY_ITSELF[kind][0]]


async def test_paused_destroys_nothing_until_it_is_taken_away(workspace: Workspace) -> None:
    await workspace.apply(gpu_pod("one"))
    cloud_id = (await workspace.becomes("GpuPod", "one"))["status"]["id"]
    await workspace.kube.annotate("GpuPod", "one", {PAUSED: "true"})
    await workspace.becomes("GpuPod", "one", lambda pod: condition(pod, "Paused"))
    await workspace.kube.delete("GpuPod", "one")
    await workspace.kube.annotate("GpuPod", "one", {"gpurelay.dev/reconcile-at": "while deleting"})
    held = await workspace.becomes("GpuPod", "one", lambda pod: (pod or {})["status"].get("reconcileAt"))
    assert "deletionTimestamp" in held["metadata"]
    assert condition(held, "Paused")["status"] == "True"
    assert await count(workspace, TERMINATE_VM) == 0
    await workspace.kube.annotate("GpuPod", "one", {PAUSED: None})
    await workspace.is_gone("GpuPod", "one")
    assert await state_of(workspace, "GpuPod", cloud_id) == "terminated"
