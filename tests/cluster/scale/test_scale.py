"""Scaling through the subresource, as kubectl, HPA and KEDA do it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.cluster.cloud_log import CREATE_CLUSTER, RESTART_CLUSTER, SCALE_CLUSTER, STOP_CLUSTER, changes
from tests.support.manifests import gpu_cluster, ready

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace


def _has(replicas: int) -> Callable[[Manifest | None], bool]:
    def scaled(cluster: Manifest | None) -> bool:
        status = (cluster or {}).get("status", {})
        return ready(cluster) and (status["replicas"], status["readyReplicas"]) == (replicas, replicas)

    return scaled


async def test_kubectl_scale_changes_the_replicas_in_the_cloud_up_and_down(workspace: Workspace) -> None:
    await workspace.apply(gpu_cluster())
    await workspace.becomes("GpuCluster", "llm")
    await workspace.kubectl("scale", "gpucluster/llm", "--replicas=4")
    cluster = await workspace.becomes("GpuCluster", "llm", _has(4))
    assert (await workspace.organization.cluster(cluster["status"]["id"]))["replicaCount"] == 4
    await workspace.kubectl("scale", "gpucluster/llm", "--current-replicas=4", "--replicas=1")
    cluster = await workspace.becomes("GpuCluster", "llm", _has(1))
    assert len(cluster["status"]["replicaStatuses"]) == 1
    assert await changes(workspace) == [CREATE_CLUSTER, SCALE_CLUSTER, SCALE_CLUSTER]


async def test_replicas_that_a_manifest_leaves_out_are_one_and_stay_as_an_autoscaler_left_them(
    workspace: Workspace,
) -> None:
    asked = gpu_cluster()
    del asked["spec"]["replicas"]
    await workspace.apply(asked)
    cluster = await workspace.becomes("GpuCluster", "llm", _has(1))
    assert cluster["spec"]["replicas"] == 1
    await workspace.kubectl("scale", "gpucluster/llm", "--replicas=2")
    await workspace.becomes("GpuCluster", "llm", _has(2))
    await workspace.apply(asked)
    assert (await workspace.becomes("GpuCluster", "llm", _has(2)))["spec"]["replicas"] == 2


async def test_the_scale_subresource_tells_desired_and_present_replicas_and_a_selector(workspace: Workspace) -> None:
    await workspace.apply(gpu_cluster(replicas=2))
    await workspace.becomes("GpuCluster", "llm")
    path = f"/apis/gpurelay.dev/v1alpha1/namespaces/{workspace.namespace}/gpuclusters/llm/scale"
    scale = json.loads(await workspace.kubectl("get", "--raw", path))
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == {"replicas": 2, "selector": "gpurelay.dev/cluster=llm"}


async def test_scaling_to_zero_is_refused_with_the_way_to_stop_paying(workspace: Workspace) -> None:
    await workspace.apply(gpu_cluster())
    await workspace.becomes("GpuCluster", "llm")
    refused = await workspace.kubectl.attempt("scale", "gpucluster/llm", "--replicas=0")
    assert refused.exit_code
    assert "powerState: Stopped" in refused.stderr
    assert (await workspace.kube.get("GpuCluster", "llm"))["spec"]["replicas"] == 2


async def test_a_stopped_cluster_is_scaled_when_it_runs_again(workspace: Workspace) -> None:
    await workspace.apply(gpu_cluster(replicas=1))
    await workspace.becomes("GpuCluster", "llm")
    await workspace.apply(gpu_cluster(replicas=1, powerState="Stopped"))
    await workspace.becomes("GpuCluster", "llm")
    await workspace.kubectl("scale", "gpucluster/llm", "--replicas=3")
    stopped = await workspace.becomes("GpuCluster", "llm")
    assert stopped["status"]["state"] == "stopped"
    await workspace.kube.patch("GpuCluster", "llm", {"spec": {"powerState": "Running"}})
    await workspace.becomes("GpuCluster", "llm", _has(3))
    assert await changes(workspace) == [CREATE_CLUSTER, STOP_CLUSTER, RESTART_CLUSTER, SCALE_CLUSTER]
