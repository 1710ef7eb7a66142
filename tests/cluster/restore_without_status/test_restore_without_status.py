"""A backup brings objects back without status: what they paid for is found again, or asked about, never recreated."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.cluster.cloud_log import CREATE_CLUSTER, CREATE_POD, changes, count
from tests.support.manifests import condition, gpu_cluster, gpu_pod, stalled

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace

INTENT = "gpurelay.dev/create-intent"


def _exported(item: Manifest, name: str = "") -> Manifest:
    """As backups keep it: labels, annotations and spec; no status, no finalizers, nothing of the server's."""
    metadata = {"name": name or item["metadata"]["name"], "annotations": item["metadata"]["annotations"]}
    return {"apiVersion": item["apiVersion"], "kind": item["kind"], "metadata": metadata, "spec": item["spec"]}


def _long_ago(item: Manifest) -> Manifest:
    """The export of an object that was made a month before: its webhooks are long over."""
    annotations = item["metadata"]["annotations"]
    intent = json.loads(annotations[INTENT]) | {"startedAt": "2026-10-21T10:00:00Z"}
    return item | {"metadata": item["metadata"] | {"annotations": annotations | {INTENT: json.dumps(intent)}}}


async def _lost(workspace: Workspace, item: Manifest) -> None:
    """The object goes, its resource stays: what losing a cluster does."""
    kind, name = item["kind"], item["metadata"]["name"]
    await workspace.kube.annotate(kind, name, {"gpurelay.dev/abandon": "true"})
    await workspace.kube.delete(kind, name)
    await workspace.is_gone(kind, name)


async def test_a_cluster_is_found_again_by_the_clouds_list(workspace: Workspace) -> None:
    await workspace.apply(gpu_cluster())
    before = await workspace.becomes("GpuCluster", "llm")
    await _lost(workspace, before)
    await workspace.kube.create(_exported(before))
    after = await workspace.becomes("GpuCluster", "llm")
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after["status"]["id"] == before["status"]["id"]
    assert after["status"]["createToken"] == json.loads(after["metadata"]["annotations"][INTENT])["token"]
    assert await changes(workspace) == [CREATE_CLUSTER]


async def test_a_pod_is_found_again_where_the_cloud_lists_pods(listing_workspace: Workspace) -> None:
    await listing_workspace.apply(gpu_pod())
    before = await listing_workspace.becomes("GpuPod", "trainer")
    await _lost(listing_workspace, before)
    await listing_workspace.kube.create(_exported(before))
    after = await listing_workspace.becomes("GpuPod", "trainer")
    assert after["status"]["id"] == before["status"]["id"]
    assert await changes(listing_workspace) == [CREATE_POD]


async def test_a_pod_that_nothing_can_find_is_asked_about_and_adopted_by_a_persons_word(workspace: Workspace) -> None:
    await workspace.apply(gpu_pod())
    before = await workspace.becomes("GpuPod", "trainer")
    await _lost(workspace, before)
    await workspace.kube.create(_long_ago(_exported(before)))
    asked = await workspace.becomes("GpuPod", "trainer", lambda pod: stalled(pod) == "CreateOutcomeUnknown")
    message = condition(asked, "CreateOutcomeUnknown")["message"]
    token = json.loads(before["metadata"]["annotations"][INTENT])["token"]
    assert before["status"]["cloudName"] in message
    assert "gpurelay.dev/adopt-id" in message
    assert f"gpurelay.dev/retry-create={token}" in message
    await workspace.kube.annotate("GpuPod", "trainer", {"gpurelay.dev/adopt-id": before["status"]["id"]})
    after = await workspace.becomes("GpuPod", "trainer")
    assert after["status"]["id"] == before["status"]["id"]
    assert not condition(after, "CreateOutcomeUnknown")
    assert await changes(workspace) == [CREATE_POD]


async def test_a_pod_that_a_person_knows_to_be_gone_is_made_anew_by_their_word(workspace: Workspace) -> None:
    await workspace.apply(gpu_pod())
    before = await workspace.becomes("GpuPod", "trainer")
    await _lost(workspace, before)
    await workspace.kube.create(_long_ago(_exported(before)))
    await workspace.becomes("GpuPod", "trainer", lambda pod: stalled(pod) == "CreateOutcomeUnknown")
    token = json.loads(before["metadata"]["annotations"][INTENT])["token"]
    await workspace.kube.annotate("GpuPod", "trainer", {"gpurelay.dev/retry-create": token})
    after = await workspace.becomes("GpuPod", "trainer")
    assert after["status"]["id"] != before["status"]["id"]
    assert after["status"]["attempt"] == before["status"]["attempt"] + 1
    assert await count(workspace, CREATE_POD) == 2


async def test_deleting_a_restored_cluster_that_was_not_looked_at_yet_ends_its_resource(workspace: Workspace) -> None:
    await workspace.apply(gpu_cluster())
    before = await workspace.becomes("GpuCluster", "llm")
    await _lost(workspace, before)
    restored = _exported(before)
    restored["metadata"] |= {"finalizers": ["gpurelay.dev/cloud-resource"]}
    restored["metadata"]["annotations"] |= {"gpurelay.dev/paused": "true"}
    await workspace.kube.create(restored)
    await workspace.kube.delete("GpuCluster", "llm")
    await workspace.kube.annotate("GpuCluster", "llm", {"gpurelay.dev/paused": None})
    await workspace.is_gone("GpuCluster", "llm")
    assert (await workspace.organization.cluster(before["status"]["id"]))["status"] == "terminated"


async def test_a_copy_of_a_cluster_under_another_name_gets_a_resource_of_its_own(workspace: Workspace) -> None:
    await workspace.apply(gpu_cluster(replicas=1))
    original = await workspace.becomes("GpuCluster", "llm")
    await workspace.kube.create(_exported(original, "copied"))
    copy = await workspace.becomes("GpuCluster", "copied")
    assert copy["status"]["id"] != original["status"]["id"]
    assert copy["status"]["cloudName"].startswith(f"{workspace.namespace}-copied"[:40])
    await workspace.kube.delete("GpuCluster", "copied")
    await workspace.is_gone("GpuCluster", "copied")
    assert (await workspace.organization.cluster(original["status"]["id"]))["status"] == "running"


async def test_a_copy_of_a_pod_under_another_name_gets_a_resource_of_its_own(workspace: Workspace) -> None:
    await workspace.apply(gpu_pod())
    original = await workspace.becomes("GpuPod", "trainer")
    await workspace.kube.create(_exported(original, "copied"))
    copy = await workspace.becomes("GpuPod", "copied")
    assert copy["status"]["id"] != original["status"]["id"]
    assert await count(workspace, CREATE_POD) == 2
