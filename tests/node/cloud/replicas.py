"""What a test asks about the replicas of a cluster or a serving deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from relay_localcloud.runtimes.kubernetes.names import namespace_of
from tests.node.cloud.workload_image import IMAGE
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.node.cloud.customer import Customer

Json = dict[str, Any]


async def serves(customer: Customer, count: int) -> tuple[Json, str]:
    """Create a serving deployment with so many replicas, and return it once all are healthy, with its path."""
    counts = {"gpuCountPerReplica": 1, "replicasMin": 0, "replicasMax": count, "replicasDesired": count}
    model = {"publicModelId": "echo", "servedModelId": "echo", "engine": "vllm", "engineImage": IMAGE}
    more = {"organizationId": customer.team.id, "gpuModelId": "h100", "backendWeight": 1, "env": {"PORT": "8000"}}
    created = await customer.team.call("POST", "/v1/serving/deployments", model | counts | more)
    path = f"/v1/serving/deployments/{created['id']}"
    return await becomes(customer, path, "running", count), path


async def becomes(customer: Customer, path: str, status: str, healthy: int) -> Json:
    """What a path answers, once it has this status and so many healthy replicas."""

    def is_so(found: Json) -> bool:
        return found["status"] == status and sum(bool(each["healthy"]) for each in found["replicas"]) == healthy

    what = f"{path} is {status} with {healthy} healthy replicas"
    return await eventually(lambda: customer.team.call("GET", path), is_so, within=120, what=what)


async def has_no_pods(customer: Customer, cloud_id: str) -> None:
    """Return once the node has no Pod of it."""
    labels, space = f"gpurelay.dev/cloud-id={cloud_id}", namespace_of(customer.team.id)
    look = lambda: customer.kube.list("Pod", space, labelSelector=labels)  # noqa: E731 - one look
    await eventually(look, lambda pods: not pods, what=f"no Pod of {cloud_id} is left")
