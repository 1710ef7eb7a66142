"""Clusters of a stage: made, looked at, and their replicas as a kubelet has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from relay_localcloud.runtimes.kubernetes.names import name_of
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.cluster.kubernetes_runtime.stage import Json, Stage


async def post(stage: Stage, **fields: Any) -> str:
    """The id of a new cluster of one replica with one GPU."""
    body = {"name": "llm", "imageUrl": "app:1", "gpuModelId": "h100", "healthCheckPath": "/up", **fields}
    path = f"/v1/orgs/{stage.organization.id}/clusters/create"
    return str((await stage.organization.call("POST", path, body))["id"])


async def act(stage: Stage, cluster_id: str, action: str, body: Json | None = None) -> None:
    await stage.organization.call("POST", f"/v1/clusters/{cluster_id}/{action}", body)


async def detail(stage: Stage, cluster_id: str) -> Json:
    found: Json = await stage.organization.call("GET", f"/v1/clusters/{cluster_id}/detail")
    return found


async def becomes(stage: Stage, cluster_id: str, status: str, words: str = "") -> Json:
    """The detail once it has this status and a reason with these words, or none."""
    return await told(lambda: detail(stage, cluster_id), status, words)


async def told(look: Callable[[], Awaitable[Json]], status: str, words: str) -> Json:
    """What is seen once it has this status and a reason with these words, or none."""

    def is_so(found: Json) -> bool:
        said = found.get("statusReason")
        return found["status"] == status and (words in (said or "") if words else said is None)

    return await eventually(look, is_so, what=f"{status}: {words}")


async def replicas(stage: Stage, cluster_id: str, count: int) -> list[str]:
    """The ids of its replicas, once there are so many with a Pod each."""
    ids = [each["id"] for each in (await detail(stage, cluster_id))["replicas"]]
    assert len(ids) == count
    for replica_id in ids:
        await stage.pod(replica_id)
    return ids


async def serves(stage: Stage, *replica_ids: str) -> None:
    """Their containers run and pass their checks."""
    for replica_id in replica_ids:
        await stage.scheduler_binds(replica_id)
        await stage.kubelet_runs(replica_id)


async def running(stage: Stage, **fields: Any) -> tuple[str, list[str]]:
    """A cluster that runs, and its replicas."""
    cluster_id = await post(stage, **fields)
    ids = await replicas(stage, cluster_id, fields.get("replicaCount", 1))
    await serves(stage, *ids)
    await becomes(stage, cluster_id, "running")
    return cluster_id, ids


async def removed(stage: Stage, *replica_ids: str) -> None:
    """Their Pods left, and the kubelet is done with them."""
    for replica_id in replica_ids:
        await stage.leaves(replica_id)
        await stage.kubelet_removes(name_of(replica_id))


async def left(stage: Stage) -> list[str]:
    """What the namespace has of replicas and is not on its way out."""
    found = [each for kind in ("Pod", "Secret") for each in await stage.kube.list(kind, stage.namespace)]
    return [each["metadata"]["name"] for each in found if not each["metadata"].get("deletionTimestamp")]
