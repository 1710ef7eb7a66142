"""What the cloud was asked on behalf of one workspace, by the cloud's own request log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.localcloud import CloudRefusal

if TYPE_CHECKING:
    from tests.support.localcloud import Json
    from tests.support.workspace import Workspace

CREATE_POD = "POST /v1/pods"
CREATE_CLUSTER = "POST /v1/orgs/{orgId}/clusters/create"
READ_BALANCE = "GET /v1/orgs/{orgId}/billing/balance"
READ_VM = "GET /v1/vms/{id}"
READ_CLUSTER = "GET /v1/clusters/{id}/detail"
STOP_VM = "POST /v1/vms/{id}/stop"
STOP_CLUSTER = "POST /v1/clusters/{id}/stop"
RESTART_VM = "POST /v1/vms/{id}/restart"
RESTART_CLUSTER = "POST /v1/clusters/{id}/restart"
SCALE_CLUSTER = "POST /v1/clusters/{id}/scale"
SET_VISIBILITY = "POST /v1/vms/{id}/visibility"
TERMINATE_VM = "POST /v1/vms/{id}/terminate"
TERMINATE_CLUSTER = "POST /v1/clusters/{id}/terminate"
BY_ITSELF = {
    "GpuPod": (CREATE_POD, READ_VM, STOP_VM, RESTART_VM, TERMINATE_VM),
    "GpuCluster": (CREATE_CLUSTER, READ_CLUSTER, STOP_CLUSTER, RESTART_CLUSTER, TERMINATE_CLUSTER),
}
CREATES = frozenset({CREATE_POD, CREATE_CLUSTER, "POST /v1/orgs/{orgId}/vms/create"})


async def asked(workspace: Workspace, *operations: str) -> list[Json]:
    """The workspace's requests for these operations, oldest first."""
    log = await workspace.cloud.control.requests(organization=workspace.organization)
    return [one for one in log if one["operation"] in operations]


async def count(workspace: Workspace, *operations: str) -> int:
    """How often the cloud was asked for one of these."""
    return len(await asked(workspace, *operations))


async def changes(workspace: Workspace) -> list[str]:
    """Everything but reads that was asked about pods, VMs and clusters, oldest first."""
    log = await workspace.cloud.control.requests(organization=workspace.organization)
    paid = ("/v1/pods", "/vms/", "/clusters")
    return [one["operation"] for one in log if one["method"] != "GET" and any(part in one["path"] for part in paid)]


async def left(workspace: Workspace) -> list[str]:
    """Ids of everything of the organization that holds a GPU, and of its clusters: what goes on costing money."""
    nodes = await workspace.cloud.control.nodes()
    holders = {unit["workloadId"] for node in nodes for unit in node["units"]} - {None}
    own = [cloud_id for cloud_id in sorted(holders) if await _is_own(workspace, cloud_id)]
    return own + [cluster["id"] for cluster in await workspace.organization.clusters()]


async def _is_own(workspace: Workspace, cloud_id: str) -> bool:
    try:
        await workspace.organization.vm(cloud_id)
    except CloudRefusal as refused:
        if refused.status in {403, 404}:
            return False
        raise
    return True
