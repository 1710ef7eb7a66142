"""An organization as a provider of GPUs (section 4, "Providers"): its nodes, statistics and earnings."""

import hashlib
from collections import Counter
from functools import partial
from typing import Annotated, Final

from pydantic import Field
from sqlalchemy import bindparam, distinct, func, select

from relay_localcloud.capacity import claims, nodes
from relay_localcloud.capacity.nodes import NODES, Node
from relay_localcloud.http.arguments import Path, Query
from relay_localcloud.http.bodies import Body
from relay_localcloud.http.pages import PageRequest
from relay_localcloud.http.principal import EarningsReader, OrganizationId, OrganizationWriter, ProviderReader
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel.instants import SECOND, timestamp
from relay_localcloud.kernel.prepared import Prepared
from relay_localcloud.kernel.rows import shown
from relay_localcloud.kernel.store import Tx
from relay_localcloud.providers import applications, earnings, node_events
from relay_localcloud.providers.earnings import Payout
from relay_localcloud.providers.tokens import TOKENS, TokenState, state_of
from relay_wire.provider import (
    NodeStatus,
    NodeStatusUpdate,
    ProviderEarnings,
    ProviderNode,
    ProviderNodeList,
    ProviderStats,
)

router = Router("Providers")

_HOLDERS: Final = Prepared(
    select(func.count(distinct(claims.claims.c.holder_id))).where(claims.claims.c.node_id == bindparam("node"))
)
"""How many pods, VMs and replicas hold GPUs of a node."""

NodeId = Annotated[str, Path("nodeId")]
IncludeRemoved = Annotated[bool, Query("includeRemoved"), Field(description="Removed nodes, too.")]
StatusFilter = Annotated[NodeStatus | None, Query(), Field(description="Only nodes of this status, removed ones too.")]


@router.get("/v1/orgs/{orgId}/provider/nodes", response_model=ProviderNodeList, summary="The provider's nodes")
def list_provider_nodes(
    _: ProviderReader,
    organization_id: OrganizationId,
    page: PageRequest,
    tx: Tx,
    include_removed: IncludeRemoved = False,
    status: StatusFilter = None,
) -> dict[str, object]:
    """Answers a page in the order in which the nodes came: those enrolled, and those of the organization alone."""
    where = [nodes.owned_by(organization_id)]
    if status is not None:
        where.append(nodes.shown_status == status)
    elif not include_removed:
        where.append(nodes.nodes.c.removed_at.is_(None))

    def rows(after: int, count: int) -> list[tuple[int, Node]]:
        return NODES.after(tx, after, count, *where)

    return page.oldest("provider nodes", organization_id, rows, partial(_shown, tx))


@router.patch("/v1/orgs/{orgId}/provider/nodes/{nodeId}", response_model=ProviderNode, summary="Set a node's status")
def update_provider_node(
    _: OrganizationWriter, organization_id: OrganizationId, node_id: NodeId, body: Body[NodeStatusUpdate], tx: Tx
) -> dict[str, object]:
    """Answers the node. Draining and maintenance keep new workloads off it, removal ends what it carries for good."""
    applications.owned_node(tx, organization_id, node_id)
    node_events.set_by_owner(tx, node_id, body.status)
    return _shown(tx, nodes.get(tx, node_id))


@router.get("/v1/orgs/{orgId}/provider/stats", response_model=ProviderStats, summary="Node and token stats")
def provider_stats(_: ProviderReader, organization_id: OrganizationId, tx: Tx) -> dict[str, object]:
    """Counts of nodes by status, of GPUs, and of provisioning tokens by what has become of them."""
    node_stats = _node_stats(tx, organization_id)
    tokens = Counter(state_of(token, tx.now) for token in TOKENS.all(tx, organization_id=organization_id))
    token_stats = {
        "total": tokens.total(),
        "active": tokens[TokenState.ACTIVE],
        "usedUp": tokens[TokenState.USED_UP],
        "expired": tokens[TokenState.EXPIRED],
        "revoked": tokens[TokenState.REVOKED],
    }
    return {"nodes": node_stats, "tokens": token_stats}


@router.get("/v1/orgs/{orgId}/provider/earnings", response_model=ProviderEarnings, summary="Earnings and payouts")
def provider_earnings(_: EarningsReader, organization_id: OrganizationId, tx: Tx) -> dict[str, object]:
    """All usage of the nodes up to now, open stints included; payouts are made on the 1st at 00:10 UTC."""
    earned = earnings.of_provider(tx, organization_id, tx.now)
    return {
        "totalCents": earned.total_cents,
        "items": [{"nodeId": node_id, "cents": cents} for node_id, cents in earned.cents_by_node.items()],
        "payouts": [_payout(organization_id, payout) for payout in reversed(earned.payouts)],
    }


def _shown(tx: Tx, node: Node) -> dict[str, object]:
    """A node as its provider sees it (section 3, "Provider node status"): how many workloads it has, but not whose."""
    gpus = [{"id": unit_id, "gpuModelId": node.gpu_model_id} for unit_id in node.unit_ids]
    used = {"gpus": gpus, "workloads": _HOLDERS.run(tx.connection, node=node.id).fetchone()[0]}
    return {**shown(node, "id", "status"), **used, **shown(node, "location", "region", "node_pool", "created_at")}


def _node_stats(tx: Tx, organization_id: str) -> dict[str, int]:
    owned = nodes.owned(tx, organization_id)
    statuses = Counter(node.status for node in owned)
    claimed = select(func.count()).select_from(claims.claims).join(nodes.nodes).where(nodes.owned_by(organization_id))
    return {
        "total": len(owned) - statuses["removed"],
        **{status: statuses[status] for status in ("online", "offline", "maintenance", "draining", "removed")},
        "totalGpus": sum(node.gpu_count for node in owned if node.removed_at is None),
        "claimedGpus": tx.connection.execute(claimed).scalar_one(),
    }


def _payout(organization_id: str, payout: Payout) -> dict[str, object]:
    # An organization has one payout a month, so the organization and the month identify it.
    named = hashlib.sha256(f"{organization_id}\n{payout.start // SECOND}".encode()).hexdigest()[:20]
    return {
        "id": f"payout_{named}",
        "amountCents": payout.cents,
        "periodStart": timestamp(payout.start),
        "periodEnd": timestamp(payout.end),
        "paidAt": timestamp(payout.paid_at),
    }
