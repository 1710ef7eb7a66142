"""`/_localcloud/nodes`: capacity comes, goes and stops reporting."""

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from relay_localcloud.capacity import catalog, claims, nodes
from relay_localcloud.capacity.catalog import GPU_MODELS, LOCATIONS, SEEDED_NODE_LOCATIONS
from relay_localcloud.capacity.nodes import NODES, NewNode, Node
from relay_localcloud.capacity.offers import require_made_up
from relay_localcloud.http.bodies import Answer, ControlBody, ControlRequest
from relay_localcloud.http.errors import ApiError
from relay_localcloud.http.principal import ResourceId
from relay_localcloud.http.routing import Router
from relay_localcloud.identity import organizations
from relay_localcloud.kernel.rows import shown
from relay_localcloud.kernel.store import Tx
from relay_localcloud.providers import node_events, tokens

router = Router()

Word = Annotated[str, Field(min_length=1, max_length=100)]


class NodeCreate(ControlRequest):
    """A node to bring in; `ramGb` is the model's usual unless given, `orgId` makes it that organization's own.

    `provisioningToken` enrols it with the token's provider, whose capacity everybody may use unless `orgId` says that
    the provider alone does.
    """

    gpu_model_id: Word
    gpu_count: Annotated[int, Field(ge=1, le=16384)]
    location: Word | None = None
    region: Word | None = None
    ram_gb: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    org_id: Word | None = None
    provisioning_token: Word | None = None


class NodeChange(ControlRequest):
    """What happens to a node; absent fields leave it as it is."""

    reporting: bool | None = None
    removed: bool | None = None
    infiniband_agent: bool | None = None


@router.get("/nodes", summary="The nodes, and what sits on them")
def list_nodes(tx: Tx) -> Answer:
    """Answers `{items}`; removed nodes are left out."""
    holders = claims.unit_holders(tx)
    return {"items": [_shown(node, holders) for node in NODES.all(tx, removed_at=None)]}


@router.post("/nodes", summary="Bring a node in")
def create_node(body: ControlBody[NodeCreate], tx: Tx) -> Answer:
    """Answers the node; workloads that wait for room get it at once."""
    require_made_up(tx, "Bringing a node in")
    model = catalog.entry("gpuModelId", GPU_MODELS, body.gpu_model_id, status=400)
    location = body.location or SEEDED_NODE_LOCATIONS[0]
    place = LOCATIONS.get(location)
    node = NewNode(
        gpu_model_id=model.id,
        gpu_count=body.gpu_count,
        location=location,
        region=body.region or (place.region if place else location),
        ram_gb=body.ram_gb or model.node_ram_gb,
        organization_id=body.org_id or "",
    )
    if body.org_id is not None:
        organizations.organization(tx, body.org_id)
    if body.provisioning_token is not None:
        node = _enrolled(tx, node, body.provisioning_token)
    node_id = nodes.add_node(tx, node)
    node_events.came(tx, model.id)
    return _shown_now(tx, node_id)


@router.patch("/nodes/{id}", summary="Make a node fall silent, return, or go")
def change_node(node_id: ResourceId, body: ControlBody[NodeChange], tx: Tx) -> Answer:
    """Answers the node. A removed one stays removed."""
    require_made_up(tx, "Changing a node")
    node = NODES.find(tx, id=node_id)
    if node is None:
        raise ApiError(404, f"There is no node {node_id!r}.")
    if node.removed_at is not None:
        raise ApiError(409, f"The node {node_id!r} was removed.")
    if body.removed is False:
        raise ApiError(400, "removed: a node that was removed does not come back; bring in another.")
    if body.infiniband_agent is not None:
        NODES.change(tx, node_id, infiniband_agent=body.infiniband_agent)
    if body.reporting is not None and body.reporting != node.reporting:
        (node_events.returned if body.reporting else node_events.fell_silent)(tx, node_id)
    if body.removed:
        node_events.was_removed(tx, node_id)
    return _shown_now(tx, node_id)


def _enrolled(tx: Tx, node: NewNode, provisioning_token: str) -> NewNode:
    token = tokens.redeem(tx, provisioning_token)
    if node.organization_id not in ("", token.organization_id):
        raise ApiError(400, "orgId: the provisioning token belongs to another organization; leave one of the two out.")
    return replace(node, provider_id=token.organization_id, node_pool=token.node_pool)


def _shown_now(tx: Tx, node_id: str) -> dict[str, object]:
    return _shown(nodes.get(tx, node_id), claims.unit_holders(tx, node_id=node_id))


def _shown(node: Node, holders: dict[tuple[str, int], str]) -> dict[str, object]:
    return {
        **shown(node, "id", "gpu_model_id", "gpu_count", "location", "region", "ram_gb"),
        **shown(node, "status", "reporting", "infiniband_agent"),
        "organizationId": node.organization_id or None,
        **shown(node, "provider_id", "node_pool"),
        "units": [
            {"id": unit_id, "workloadId": holders.get((node.id, unit))} for unit, unit_id in enumerate(node.unit_ids)
        ],
    }
