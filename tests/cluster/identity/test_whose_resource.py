"""Whose a resource is, on a real API server: copies, hand-written intents and keys of others touch nothing."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from relay_operator.api.meta import CreateIntent
from tests.cluster.account_refs.test_cluster_account import admit
from tests.cluster.cloud_log import BY_ITSELF, changes, count
from tests.cluster.identity.by_hand import copy, has_its_own, paused_copy, recreate_account
from tests.support.eventually import eventually
from tests.support.kube import Kube
from tests.support.manifests import condition, gpu_cluster, gpu_pod, ready, stalled
from tests.support.workspace import Workspace

if TYPE_CHECKING:
    from tests.support.kube import Manifest

INTENT = "gpurelay.dev/create-intent"
PAUSED = "gpurelay.dev/paused"
FINALIZER = "gpurelay.dev/cloud-resource"
KINDS = pytest.mark.parametrize("manifest", [gpu_pod("one"), gpu_cluster("one", replicas=1)], ids=["pod", "cluster"])


async def _running(workspace: Workspace, kind: str, cloud_id: str) -> bool:
    organization = workspace.organization
    record = await (organization.vm if kind == "GpuPod" else organization.cluster)(cloud_id)
    return bool(record["status"] == "running")


@KINDS
async def test_a_copy_with_its_status_gets_a_resource_of_its_own(workspace: Workspace, manifest: Manifest) -> None:
    kind = manifest["kind"]
    await workspace.apply(manifest)
    original = await workspace.becomes(kind, "one")
    recorded = original["status"]["identity"]
    assert (recorded["name"], recorded["uid"]) == ("one", original["metadata"]["uid"])
    assert recorded["organization"] == workspace.organization.id
    assert recorded["installation"] in original["status"]["cloudName"].split("-")
    await copy(workspace.kube, original, "two")

    def own(item: Manifest | None) -> bool:
        return condition(item, "Ready").get("status") == "True" and (item or {})["status"]["identity"]["name"] == "two"

    copied = await workspace.becomes(kind, "two", own)
    assert copied["status"]["id"] != original["status"]["id"]
    await workspace.kube.delete(kind, "two")
    await workspace.is_gone(kind, "two")
    assert await _running(workspace, kind, original["status"]["id"])
    create, _, _, _, terminate = BY_ITSELF[kind]
    assert sorted(await changes(workspace)) == sorted([create, create, terminate])


@KINDS
async def test_a_copy_in_another_namespace_of_a_shared_account_gets_a_resource_of_its_own(
    brisk_workspace: Workspace, shared_account: str, manifest: Manifest
) -> None:
    workspace, kind = brisk_workspace, manifest["kind"]
    await admit(workspace, shared_account, "ml")
    reference = {"kind": "ClusterCloudAccount", "name": shared_account}
    await workspace.apply({**manifest, "spec": {**manifest["spec"], "accountRef": reference}})
    original = await workspace.becomes(kind, "one")
    async with Kube(workspace.kube.kubeconfig) as kube:
        other = await Workspace.create(kube, workspace.cloud, "copies")
        try:
            await admit(other, shared_account, "ml")
            await copy(kube, original, "one")
            copied = await other.becomes(kind, "one", lambda item: ready(item) and has_its_own(item))
            assert copied["status"]["id"] != original["status"]["id"]
            await kube.delete(kind, "one")
            await other.is_gone(kind, "one")
        finally:
            await other.remove()
    assert await _running(workspace, kind, original["status"]["id"])
    create, _, _, _, terminate = BY_ITSELF[kind]
    assert sorted(await changes(workspace)) == sorted([create, create, terminate])


@KINDS
async def test_a_copy_that_is_deleted_ends_nothing_of_the_originals(workspace: Workspace, manifest: Manifest) -> None:
    kind = manifest["kind"]
    await workspace.apply(manifest)
    original = await workspace.becomes(kind, "one")
    await paused_copy(workspace.kube, original, "two")
    await workspace.kube.delete(kind, "two")
    await workspace.kube.annotate(kind, "two", {"gpurelay.dev/paused": None})
    await workspace.is_gone(kind, "two")
    assert await _running(workspace, kind, original["status"]["id"])
    assert await changes(workspace) == [BY_ITSELF[kind][0]]


async def test_an_account_made_again_with_a_key_of_another_organization_ends_and_recreates_nothing(
    brisk_workspace: Workspace,
) -> None:
    workspace, kube = brisk_workspace, brisk_workspace.kube
    await workspace.apply(gpu_pod("one", recovery={"onTerminated": "Recreate"}))
    running = await workspace.becomes("GpuPod", "one")
    other = await workspace.cloud.control.create_organization(f"{workspace.namespace}-other")
    await recreate_account(workspace, other.api_key)
    told = await workspace.becomes("GpuPod", "one", lambda item: stalled(item) == "IdentityMismatch")
    message = condition(told, "Stalled")["message"]
    assert workspace.organization.id in message
    assert other.id in message
    assert told["status"]["id"] == running["status"]["id"]
    await kube.delete("GpuPod", "one")
    waiting = "the deletion waits"
    held = await workspace.becomes(
        "GpuPod", "one", lambda item: waiting in condition(item, "Stalled").get("message", "")
    )
    assert held["metadata"]["finalizers"] == [FINALIZER]
    assert await _running(workspace, "GpuPod", running["status"]["id"])
    log = await workspace.cloud.control.requests(organization=other)
    assert "POST /v1/pods" not in {one["operation"] for one in log}
    await recreate_account(workspace, workspace.organization.api_key)
    await workspace.is_gone("GpuPod", "one")
    assert not await _running(workspace, "GpuPod", running["status"]["id"])


async def test_an_intent_written_by_hand_takes_nothing_over_on_a_shared_account(
    brisk_workspace: Workspace, shared_account: str
) -> None:
    workspace = brisk_workspace
    await workspace.kube.patch("Namespace", workspace.namespace, {"metadata": {"labels": {"team": "ml"}}})
    await workspace.apply(gpu_cluster("victim", replicas=1))
    victim = await workspace.becomes("GpuCluster", "victim")
    forged = json.loads(victim["metadata"]["annotations"][INTENT])
    forged |= {"token": "0" * 32, "account": f"ClusterCloudAccount/{shared_account}"}
    forged.pop("identity")
    thief = gpu_cluster("thief", replicas=1, accountRef={"kind": "ClusterCloudAccount", "name": shared_account})
    thief["metadata"]["annotations"] = {INTENT: json.dumps(forged)}
    await workspace.apply(thief)
    own = await workspace.becomes("GpuCluster", "thief")
    assert own["status"]["id"] != victim["status"]["id"]
    await workspace.kube.delete("GpuCluster", "thief")
    await workspace.is_gone("GpuCluster", "thief")
    assert await _running(workspace, "GpuCluster", victim["status"]["id"])


async def test_an_intent_written_by_hand_ends_nothing_that_somebody_made_without_the_operator(
    brisk_workspace: Workspace, shared_account: str
) -> None:
    workspace, kube, organization = brisk_workspace, brisk_workspace.kube, brisk_workspace.organization
    await kube.patch("Namespace", workspace.namespace, {"metadata": {"labels": {"team": "ml"}}})
    body = {"name": "production", "replicaCount": 1, "imageUrl": "nginx"}
    made = await organization.call("POST", f"/v1/orgs/{organization.id}/clusters/create", body)
    account = {"kind": "ClusterCloudAccount", "name": shared_account}
    intent = CreateIntent(
        token="0" * 32,
        name="production",
        attempt=1,
        spec_hash="",
        started_at=datetime.now(UTC),
        account="/".join(account.values()),
    )
    thief = gpu_cluster("thief", replicas=1, accountRef=account)
    thief["metadata"] |= {
        "annotations": {INTENT: intent.to_annotation(), PAUSED: "true"},
        "finalizers": [FINALIZER],
    }
    await workspace.apply(thief)
    await workspace.becomes("GpuCluster", "thief", lambda item: condition(item, "Paused"))
    await kube.delete("GpuCluster", "thief")
    await kube.annotate("GpuCluster", "thief", {PAUSED: None})
    await workspace.is_gone("GpuCluster", "thief")
    assert (await organization.cluster(made["id"]))["status"] != "terminated"
    assert await changes(workspace) == [BY_ITSELF["GpuCluster"][0]], "by hand"


async def test_a_namesake_of_another_spec_gets_nothing_of_what_was_forced_away_in_mid_create(
    workspace: Workspace,
) -> None:
    create, _, _, _, _ = BY_ITSELF["GpuPod"]
    control, organization = workspace.cloud.control, workspace.organization
    await workspace.becomes("CloudAccount", "default")
    fault = await control.fault(create, {"delaySeconds": 3}, organizationId=organization.id, count=1)
    await workspace.apply(gpu_pod("one", count=1))
    await eventually(lambda: control.was_met(fault), what="the create is under way")
    await workspace.force_away("GpuPod", "one")
    await workspace.apply(gpu_pod("one", count=2))
    pod = await workspace.becomes("GpuPod", "one")
    assert pod["status"]["gpuCount"] == 2
    assert pod["status"]["identity"]["uid"] == pod["metadata"]["uid"]
    await eventually(lambda: count(workspace, create), lambda asked: asked == 2, what="both creates were sent")

    async def ended() -> int:
        return (await changes(workspace)).count(BY_ITSELF["GpuPod"][4])

    await eventually(ended, what="what was made for the one that was forced away is ended")
    assert await _running(workspace, "GpuPod", pod["status"]["id"])
    await control.call("DELETE", f"/faults/{fault}")


@KINDS
async def test_what_two_objects_record_is_ended_by_neither_until_one_lets_go(
    workspace: Workspace, manifest: Manifest
) -> None:
    kind = manifest["kind"]
    names = ("one", "two")
    for name in names:
        await workspace.apply({**manifest, "metadata": {"name": name}})
    one, two = [await workspace.becomes(kind, name) for name in names]
    recorded = {name: one["status"][name] for name in ("id", "cloudName")}
    await workspace.kube.patch(kind, "two", {"status": recorded}, subresource="status")
    told = [
        await workspace.becomes(kind, name, lambda item: stalled(item) == "IdentityMismatch")
        for name in reversed(names)
    ]
    for item, other in zip(told, names, strict=True):
        message = condition(item, "Stalled")["message"]
        whose = f"{kind}/{workspace.namespace}/{other}"
        assert message.startswith(f"the resource {recorded['id']} is also recorded by {whose}: ")
    await workspace.kube.delete(kind, "one")
    await workspace.kube.annotate(kind, "one", {"gpurelay.dev/reconcile-at": "while deleting"})
    waiting = await workspace.becomes(kind, "one", lambda item: (item or {})["status"].get("reconcileAt"))
    assert "deletionTimestamp" in waiting["metadata"]
    assert waiting["metadata"]["finalizers"] == [FINALIZER]
    assert await changes(workspace) == [BY_ITSELF[kind][0]] * 2
    await workspace.obey(condition(told[0], "Stalled")["message"])
    for name in names:
        await workspace.is_gone(kind, name)
    assert not await _running(workspace, kind, recorded["id"])
    assert await _running(workspace, kind, two["status"]["id"]), "what nobody records any more is not touched"
