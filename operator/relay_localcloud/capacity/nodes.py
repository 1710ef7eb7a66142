"""The machines: how they join, fall silent, are held and leave (section 3, "Provider node status").

A node belongs to at most one organization: to its only user (`organization_id`), or to the provider that enrolled it
with a provisioning token (`provider_id`), whose capacity everybody may use; all others are the platform's, which
administrators' organizations manage.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Index,
    Select,
    and_,
    bindparam,
    case,
    func,
    literal,
    or_,
    select,
    text,
    update,
)

from relay_localcloud.capacity.catalog import GPU_MODELS, LARGEST_NODE, LOCATIONS, SEEDED_NODE_LOCATIONS
from relay_localcloud.capacity.placement import Demand, NodeRoom
from relay_localcloud.identity import organizations
from relay_localcloud.kernel import tables
from relay_localcloud.kernel.prepared import Prepared
from relay_localcloud.kernel.rows import Rows
from relay_localcloud.kernel.store import Tx

COMMUNITY: Final = "community"
"""The pool of nodes without a pool of their own (section 2, `nodePool`)."""

CORDONED: Final = "cordoned"
"""The hold of a node that its cluster's administrators closed to new workloads; it is shown as draining."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node; it may have been removed."""

    sequence: int
    id: str
    gpu_model_id: str
    gpu_count: int
    free_count: int  # negative if fewer GPUs are left for the cloud than are held
    ram_gb: int
    location: str
    region: str
    organization_id: str  # its only user; empty: everybody may use it
    reporting: bool
    schedulable: bool  # accepts new workloads: it reports, and is neither held nor removed
    infiniband_agent: bool
    created_at: int
    removed_at: int | None
    hold: str | None  # draining or maintenance, set by its owner, or CORDONED
    provider_id: str | None  # the provider that enrolled it with a provisioning token
    node_pool: str = COMMUNITY

    @property
    def status(self) -> str:
        """The status word; removal hides everything else (section 3)."""
        return "removed" if self.removed_at is not None else status_of(self.hold, reporting=self.reporting)

    @property
    def held_by_owner(self) -> bool:
        """Whether its owner set a hold."""
        return self.hold is not None and self.hold != CORDONED

    @property
    def unit_ids(self) -> list[str]:
        """The ids of its GPUs."""
        return [unit_id(self.id, unit) for unit in range(self.gpu_count)]


NODES: Final = Rows(
    Node,
    "nodes",
    Index("nodes_of_provider", "provider_id", sqlite_where=text("provider_id IS NOT NULL")),
    Index("nodes_of_pool", "node_pool", sqlite_where=text("removed_at IS NULL")),
    Index("nodes_with_room", "organization_id", "gpu_model_id", "schedulable", "free_count", "sequence"),
)
nodes: Final = NODES.table
_FREE: Final = func.max(nodes.c.free_count, text("0"))
ROOM: Final = tuple(
    _FREE.label(field.name) if field.name == "free_count" else nodes.c[field.name]
    for field in fields(NodeRoom)
    if field.name in nodes.c
)
"""The columns of a node that placement reads."""

shown_status: Final = case(
    (nodes.c.removed_at.is_not(None), "removed"),
    (nodes.c.hold == CORDONED, "draining"),
    (nodes.c.hold.is_not(None), nodes.c.hold),
    (nodes.c.reporting, "online"),
    else_="offline",
)
"""`Node.status` of a row."""

_CHANGE_FREE: Final = Prepared(
    update(nodes).where(nodes.c.id == bindparam("node")).values(free_count=nodes.c.free_count + bindparam("by"))
)
_IN_POOL: Final = Prepared(
    select(nodes.c.id)
    .where(
        nodes.c.node_pool == bindparam("pool"),
        nodes.c.removed_at.is_(None),
        or_(nodes.c.organization_id == text("''"), nodes.c.organization_id == bindparam("organization")),
    )
    .limit(1)
)


@dataclass(frozen=True, slots=True)
class NewNode:
    """A node to add; only `organization_id` uses it, or everybody if that is empty."""

    gpu_model_id: str
    gpu_count: int
    location: str
    region: str
    ram_gb: int
    organization_id: str = ""
    provider_id: str | None = None
    node_pool: str = COMMUNITY


def seed_nodes(tx: Tx) -> None:
    """Add the nodes of a fresh cloud: two of eight GPUs of every model, in two locations."""
    for model in GPU_MODELS.values():
        for location in SEEDED_NODE_LOCATIONS:
            region = LOCATIONS[location].region
            add_node(tx, NewNode(model.id, LARGEST_NODE, location, region, model.node_ram_gb))


def add_node(tx: Tx, node: NewNode) -> str:
    """Add a node, empty and reporting; returns its id."""
    up = {"reporting": True, "schedulable": True, "infiniband_agent": True, "free_count": node.gpu_count}
    return NODES.insert(tx, **asdict(node), **up, id=tx.new_id("node"), created_at=tx.now).id


def status_of(hold: str | None, *, reporting: bool) -> str:
    """The status word of a node that was not removed: a hold hides whether it reports (section 3)."""
    return "draining" if hold == CORDONED else hold or ("online" if reporting else "offline")


def get(tx: Tx, node_id: str) -> Node:
    """A node that is known to exist; it may have been removed."""
    node = NODES.find(tx, id=node_id)
    assert node is not None, "nothing outlives its node, whose row stays for good"
    return node


def owned_by(organization_id: str) -> ColumnElement[bool]:
    """Whether a node belongs to this organization: as its provider, as its only user, or as the platform."""
    administrators = select(tables.organizations.c.id).where(text("administrator"))
    platforms = and_(nodes.c.provider_id.is_(None), nodes.c.organization_id == "")
    return or_(
        nodes.c.provider_id == organization_id,
        nodes.c.organization_id == organization_id,
        and_(platforms, literal(organization_id).in_(administrators)),
    )


def owners(tx: Tx, node: Node) -> list[str]:
    """The organizations that a node belongs to: one, or the administrators' if it is the platform's."""
    own = node.provider_id or node.organization_id
    return [own] if own else organizations.administrators(tx)


def places(connection: Connection, organization_id: str) -> dict[str, str]:
    """The region of each location that has nodes which an organization may use."""
    used = nodes.c.organization_id.in_(("", organization_id))
    query = select(nodes.c.location, nodes.c.region).where(nodes.c.removed_at.is_(None), used)
    return {row.location: row.region for row in connection.execute(query.order_by(nodes.c.sequence.desc()))}


def owned(tx: Tx, organization_id: str) -> list[Node]:
    """All nodes of an organization, including removed ones, in the order in which they joined."""
    return NODES.all(tx, owned_by(organization_id))


def unit_id(node_id: str, unit: int) -> str:
    """The id of one GPU of a node."""
    return f"{node_id}-gpu{unit}"


def by_id(tx: Tx, node_ids: Iterable[str]) -> dict[str, Node]:
    """These nodes, including removed ones, by their ids."""
    return {node.id: node for node in NODES.all(tx, nodes.c.id.in_(list(node_ids)))}


def rooms_for(connection: Connection, demand: Demand) -> list[NodeRoom]:
    """The nodes of the demanded model and pool that its organization may use, up or not."""
    usable = (nodes.c.organization_id.in_(("", demand.organization_id)), nodes.c.removed_at.is_(None))
    query = select(*ROOM).where(*usable, nodes.c.gpu_model_id == demand.gpu_model_id).order_by(nodes.c.sequence)
    pool = pool_of(connection, demand)
    return _rooms(connection, query if pool is None else query.where(nodes.c.node_pool == pool))


def pool_of(connection: Connection, demand: Demand) -> str | None:
    """The pool that a demand is placed in; None: in any.

    A pool without nodes is only the name of a lane: its demands are placed in the community pool.
    """
    if demand.node_pool in (None, COMMUNITY):
        return demand.node_pool
    found = _IN_POOL.run(connection, pool=demand.node_pool, organization=demand.organization_id).fetchone()
    return COMMUNITY if found is None else demand.node_pool


def schedulable_rooms(connection: Connection) -> list[NodeRoom]:
    """The nodes that accept workloads, of all organizations."""
    query = select(*ROOM).where(nodes.c.schedulable == text("1"))
    return _rooms(connection, query.order_by(nodes.c.sequence))


def free_by_model(connection: Connection, organization_id: str) -> dict[str, tuple[int, int]]:
    """Per model, on nodes that the organization may use and that are up: free GPUs, and the most on one node."""
    query = select(nodes.c.gpu_model_id, func.sum(_FREE), func.max(_FREE)).where(
        nodes.c.organization_id.in_(("", organization_id)), nodes.c.schedulable == text("1")
    )
    rows = connection.execute(query.group_by(nodes.c.gpu_model_id))
    return {model: (free, most) for model, free, most in rows}


def room_of(connection: Connection, node_id: str) -> NodeRoom | None:
    """One node; None if it was removed."""
    query = select(*ROOM).where(nodes.c.id == node_id, nodes.c.removed_at.is_(None))
    return next(iter(_rooms(connection, query)), None)


def set_standing(tx: Tx, node_id: str, **standing: Any) -> None:  # noqa: ANN401 - of its fields
    """Set whether a node is `reporting`, or its `hold`; its workloads go on.

    A silent or held node accepts no new workloads.
    """
    node = replace(get(tx, node_id), **standing)
    if node.removed_at is None:
        NODES.change(tx, node_id, **standing, schedulable=node.reporting and node.hold is None)


def set_removed(tx: Tx, node_id: str) -> None:
    """Remove a node from the platform; its workloads must have been terminated before."""
    NODES.change(tx, node_id, reporting=False, schedulable=False, removed_at=tx.now)


def change_free(tx: Tx, node_id: str, by: int) -> None:
    """Add to a node's count of free units; `by` may be negative."""
    _CHANGE_FREE.run(tx.connection, node=node_id, by=by)


def _rooms(connection: Connection, query: Select[Any]) -> list[NodeRoom]:
    return [NodeRoom(*row) for row in connection.execute(query)]
