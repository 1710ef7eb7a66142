"""A cluster that is not whole says which replica is not, and why; it heals by the cloud's own doing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.cloud_log import RESTART_CLUSTER, SCALE_CLUSTER, TERMINATE_CLUSTER, count
from tests.support.manifests import condition, gpu_cluster, ready, stalled

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace


def _degraded(item: Manifest | None) -> bool:
    return condition(item, "Reconciling").get("reason") == "Degraded"


async def test_an_unhealthy_replica_is_named_with_its_reason_and_its_healing_is_seen(
    brisk_workspace: Workspace,
) -> None:
    control = brisk_workspace.cloud.control
    await brisk_workspace.apply(gpu_cluster(replicas=3))
    cluster = await brisk_workspace.becomes("GpuCluster", "llm")
    cluster_id = cluster["status"]["id"]
    ailing = (await brisk_workspace.organization.cluster(cluster_id))["replicas"][0]["id"]
    await control.event(cluster_id, "unhealthy", replicaId=ailing, reason="out of memory")
    told = await brisk_workspace.becomes("GpuCluster", "llm", _degraded)
    message = condition(told, "Reconciling")["message"]
    assert "2 of 3" in message
    assert ailing in message
    detail = await brisk_workspace.organization.cluster(cluster_id)
    assert detail["statusReason"] in message
    assert condition(told, "Ready")["status"] == "False"
    assert stalled(told) == ""
    assert told["status"]["readyReplicas"] == 2
    assert told["status"]["unhealthyReplicas"] == 1
    rows = {row["id"]: row for row in told["status"]["replicaStatuses"]}
    assert not rows[ailing]["healthy"]

    await control.event(cluster_id, "healthy", replicaId=ailing)
    healed = await brisk_workspace.becomes("GpuCluster", "llm")
    assert healed["status"]["readyReplicas"] == 3
    assert healed["status"].get("unhealthyReplicas", 0) == 0
    assert await count(brisk_workspace, RESTART_CLUSTER, SCALE_CLUSTER, TERMINATE_CLUSTER) == 0


async def test_a_replica_that_was_terminated_is_replaced_by_the_cloud_and_seen(brisk_workspace: Workspace) -> None:
    await brisk_workspace.apply(gpu_cluster(replicas=2))
    cluster = await brisk_workspace.becomes("GpuCluster", "llm")
    cluster_id = cluster["status"]["id"]
    before = {one["id"] for one in (await brisk_workspace.organization.cluster(cluster_id))["replicas"]}
    lost = min(before)
    await brisk_workspace.cloud.control.event(cluster_id, "terminateReplica", replicaId=lost)

    def replaced(item: Manifest | None) -> bool:
        rows = {row["id"] for row in (item or {})["status"]["replicaStatuses"] if row["healthy"]}
        return ready(item) and lost not in rows and len(rows) == 2

    healed = await brisk_workspace.becomes("GpuCluster", "llm", replaced)
    assert healed["status"]["id"] == cluster_id


async def test_a_cluster_that_found_room_for_some_replicas_alone_is_degraded_until_there_is_more(
    brisk_private_workspace: Workspace,
) -> None:
    control = brisk_private_workspace.cloud.control
    for node in await control.nodes():
        if node["gpuModelId"] == "rtx4090":
            await control.change_node(node["id"], removed=True)
    await control.add_node("rtx4090", 2)
    await brisk_private_workspace.apply(gpu_cluster(model="rtx4090", replicas=3))
    told = await brisk_private_workspace.becomes(
        "GpuCluster", "llm", lambda item: _degraded(item) and (item or {})["status"].get("readyReplicas") == 2
    )
    assert "2 of 3" in condition(told, "Reconciling")["message"]
    await control.add_node("rtx4090", 2)
    await brisk_private_workspace.becomes("GpuCluster", "llm")


async def test_a_failed_cluster_mirrors_the_clouds_words_and_a_restart_heals_it(brisk_workspace: Workspace) -> None:
    await brisk_workspace.apply(gpu_cluster(replicas=1))
    cluster = await brisk_workspace.becomes("GpuCluster", "llm")
    reason = "image pull failed: manifest unknown"
    await brisk_workspace.cloud.control.event(cluster["status"]["id"], "fail", reason=reason)
    told = await brisk_workspace.becomes("GpuCluster", "llm", lambda item: stalled(item) == "Failed")
    assert told["status"]["statusReason"] == reason
    assert reason in condition(told, "Stalled")["message"]
    await brisk_workspace.kube.annotate("GpuCluster", "llm", {"gpurelay.dev/restarted-at": "now"})
    healed = await brisk_workspace.becomes("GpuCluster", "llm")
    assert healed["status"]["id"] == cluster["status"]["id"]
