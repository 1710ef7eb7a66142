"""GitOps: another manager applies, and the operator owns nothing that the manager could want."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cluster.cloud_log import BY_ITSELF, changes
from tests.support.manifests import condition, gpu_cluster, gpu_pod, ready

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace

INTENT, FINALIZER = "f:gpurelay.dev/create-intent", 'v:"gpurelay.dev/cloud-resource"'
KINDS = pytest.mark.parametrize(
    ("kind", "manifest"), [("GpuPod", gpu_pod("one")), ("GpuCluster", gpu_cluster("one"))], ids=["pod", "cluster"]
)


def _owned_by_operator(item: Manifest) -> list[Manifest]:
    """What the operator manages outside of status."""
    entries = [one for one in item["metadata"]["managedFields"] if one["manager"] == "relay-operator"]
    assert {one.get("subresource", "") for one in entries} <= {"", "status"}
    assert all(set(one["fieldsV1"]) == {"f:status"} for one in entries if one.get("subresource"))
    return [one["fieldsV1"] for one in entries if not one.get("subresource")]


@KINDS
async def test_what_was_applied_stays_as_applied_and_the_operator_owns_status_finalizer_and_annotation_alone(
    workspace: Workspace, kind: str, manifest: Manifest
) -> None:
    await workspace.kube.apply(manifest, manager="flux", force=False)
    first = await workspace.becomes(kind, "one")
    assert first["spec"] == manifest["spec"]
    again = await workspace.kube.apply(manifest, manager="flux", force=False)
    assert again["spec"] == manifest["spec"]
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    for owned in _owned_by_operator(again):
        assert set(owned) == {"f:metadata"}
        assert set(owned["f:metadata"]) == {"f:annotations", "f:finalizers"}
        assert set(owned["f:metadata"]["f:annotations"]) - {"."} == {INTENT}
        assert set(owned["f:metadata"]["f:finalizers"]) - {"."} == {FINALIZER}
    assert await changes(workspace) == [BY_ITSELF[kind][0]]


async def test_a_change_by_the_same_manager_meets_no_conflict_and_keeps_what_the_operator_wrote(
    workspace: Workspace,
) -> None:
    await workspace.kube.apply(gpu_pod(), manager="flux", force=False)
    before = await workspace.becomes("GpuPod", "trainer")
    await workspace.kube.apply(gpu_pod(public=True), manager="flux", force=False)
    after = await workspace.becomes("GpuPod", "trainer", lambda pod: ready(pod) and (pod or {})["status"]["public"])
    assert after["status"]["id"] == before["status"]["id"]
    assert after["metadata"]["annotations"] == before["metadata"]["annotations"]
    assert after["metadata"]["finalizers"] == before["metadata"]["finalizers"]


async def test_kubectl_diff_finds_nothing_after_kubectl_apply(workspace: Workspace) -> None:
    texts = [json.dumps(one) for one in (gpu_pod(), gpu_cluster())]
    for text in texts:
        await workspace.kubectl("apply", "--filename=-", stdin=text)
    await workspace.becomes("GpuPod", "trainer")
    await workspace.becomes("GpuCluster", "llm")
    for text in texts:
        assert (await workspace.kubectl.attempt("diff", "--filename=-", stdin=text)).exit_code == 0


async def test_replicas_left_to_an_autoscaler_are_not_reset_by_the_next_apply(workspace: Workspace) -> None:
    await workspace.kube.apply(gpu_cluster(replicas=1), manager="flux", force=False)
    await workspace.becomes("GpuCluster", "llm")
    await workspace.kubectl("scale", "gpucluster/llm", "--replicas=2")
    without = gpu_cluster()
    del without["spec"]["replicas"]
    await workspace.kube.apply(without, manager="flux", force=False)

    def scaled(cluster: Manifest | None) -> bool:
        return ready(cluster) and (cluster or {})["status"]["readyReplicas"] == 2

    cluster = await workspace.becomes("GpuCluster", "llm", scaled)
    assert cluster["spec"]["replicas"] == 2
    assert condition(cluster, "Ready")["reason"] == "Running"
