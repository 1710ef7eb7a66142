"""A provider's nodes (section 4, "Providers"; section 3, "Provider node status")."""

from typing import Annotated

from pydantic import Field
from sqlalchemy import RowMapping

from relay_localcloud.capacity import nodes
from relay_localcloud.http.arguments import Path, Query
from relay_localcloud.http.bodies import Body
from relay_localcloud.http.principal import OrganizationId, OrganizationWriter, ProviderReader
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel.instants import timestamp
from relay_localcloud.kernel.store import Tx
from relay_localcloud.providers import applications, node_events
from relay_wire.provider import NodeStatus, NodeStatusUpdate, ProviderNode, ProviderNodeList

router = Router("Providers")

NodeId = Annotated[str, Path("nodeId")]
IncludeRemoved = Annotated[bool, Query("includeRemoved"), Field(description="Removed nodes, too.")]
StatusFilter = Annotated[
    NodeStatus | None, Query(), Field(description="Only nodes of this status, also where it is removed.")
]


@router.get("/v1/orgs/{orgId}/provider/nodes", response_model=ProviderNodeList, summary="The provider's nodes")
def list_provider_nodes(
    _: ProviderReader,
    organization_id: OrganizationId,
    tx: Tx,
    include_removed: IncludeRemoved = False,
    status: StatusFilter = None,
) -> dict[str, object]:
    """Answers `{items}` in the order in which the nodes came: those enrolled, and those of the organization alone."""
    rows = nodes.owned_rows(tx.connection, organization_id)
    if status is not None:
        rows = [row for row in rows if nodes.status_of(row) == status]
    elif not include_removed:
        rows = [row for row in rows if row["removed_at"] is None]
    return {"items": [shown(row) for row in rows]}


@router.patch("/v1/orgs/{orgId}/provider/nodes/{nodeId}", response_model=ProviderNode, summary="Set a node's status")
def update_provider_node(
    _: OrganizationWriter, organization_id: OrganizationId, node_id: NodeId, body: Body[NodeStatusUpdate], tx: Tx
) -> dict[str, object]:
    """Answers the node. Draining and maintenance keep new workloads off it, removal ends what it carries for good."""
    applications.owned_node(tx, organization_id, node_id)
    node_events.set_by_owner(tx, node_id, body.status)
    row = applications.owned_node(tx, organization_id, node_id)
    return shown(row)


def shown(row: RowMapping) -> dict[str, object]:
    """A node as its provider sees it."""
    gpus = [
        {"id": nodes.unit_id(row["id"], unit), "gpuModelId": row["gpu_model_id"]} for unit in range(row["gpu_count"])
    ]
    return {
        "id": row["id"],
        "status": nodes.status_of(row),
        "gpus": gpus,
        "location": row["location"],
        "region": row["region"],
        "nodePool": row["node_pool"],
        "createdAt": timestamp(row["created_at"]),
    }
