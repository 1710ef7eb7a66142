"""The machines: what they are, and how they come, fall silent and go."""

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Index,
    Integer,
    RowMapping,
    Select,
    String,
    Table,
    func,
    insert,
    select,
    text,
    update,
)

from relay_localcloud.catalog import GPU_MODELS, LARGEST_NODE, LOCATIONS, SEEDED_NODE_LOCATIONS, GpuModel
from relay_localcloud.placement import NodeRoom
from relay_localcloud.schema import metadata
from relay_localcloud.store import Tx

nodes = Table(
    "nodes",
    metadata,
    Column("sequence", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("gpu_model_id", String, nullable=False),
    Column("gpu_count", Integer, nullable=False),
    Column("free_count", Integer, nullable=False),
    Column("ram_gb", Integer, nullable=False),
    Column("location", String, nullable=False),
    Column("region", String, nullable=False),
    Column("organization_id", String, nullable=False),  # the owner; empty: the platform's own
    Column("reporting", Boolean, nullable=False),
    Column("schedulable", Boolean, nullable=False),
    Column("infiniband_agent", Boolean, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("removed_at", BigInteger),
    Index("nodes_with_room", "organization_id", "gpu_model_id", "schedulable", "free_count", "sequence"),
)

ROOM = (
    nodes.c.id,
    nodes.c.gpu_model_id,
    nodes.c.gpu_count,
    nodes.c.free_count,
    nodes.c.ram_gb,
    nodes.c.region,
    nodes.c.organization_id,
    nodes.c.schedulable,
)


@dataclass(frozen=True, slots=True)
class NewNode:
    """A node to add; `organization_id` is its owner, empty for the platform's own."""

    gpu_model_id: str
    gpu_count: int
    location: str
    region: str
    ram_gb: int
    organization_id: str = ""


def seed_nodes(tx: Tx) -> None:
    """The nodes that a fresh cloud starts with: two of eight GPUs of every model, in two places."""
    for model in GPU_MODELS.values():
        for location in SEEDED_NODE_LOCATIONS:
            add_node(tx, platform_node(model, location))


def platform_node(model: GpuModel, location: str) -> NewNode:
    """A node of the usual size at a location of the catalog."""
    return NewNode(model.id, LARGEST_NODE, location, LOCATIONS[location].region, model.node_ram_gb)


def add_node(tx: Tx, node: NewNode) -> str:
    """Bring a node in, empty and reporting; returns its id."""
    node_id = tx.new_id("node")
    tx.connection.execute(
        insert(nodes),
        {
            "id": node_id,
            "gpu_model_id": node.gpu_model_id,
            "gpu_count": node.gpu_count,
            "free_count": node.gpu_count,
            "ram_gb": node.ram_gb,
            "location": node.location,
            "region": node.region,
            "organization_id": node.organization_id,
            "reporting": True,
            "schedulable": True,
            "infiniband_agent": True,
            "created_at": tx.now,
        },
    )
    return node_id


def node_row(connection: Connection, node_id: str) -> RowMapping | None:
    """A node, removed ones included."""
    return connection.execute(select(nodes).where(nodes.c.id == node_id)).mappings().first()


def node_rows(connection: Connection) -> list[RowMapping]:
    """Every node of the platform in the order in which they came."""
    query = select(nodes).where(nodes.c.removed_at.is_(None)).order_by(nodes.c.sequence)
    return list(connection.execute(query).mappings())


def rows_by_id(connection: Connection, node_ids: Iterable[str]) -> dict[str, RowMapping]:
    """These nodes, removed ones included, by their ids."""
    query = select(nodes).where(nodes.c.id.in_(list(node_ids)))
    return {row["id"]: row for row in connection.execute(query).mappings()}


def rooms_of_model(connection: Connection, gpu_model_id: str, organization_id: str) -> list[NodeRoom]:
    """The nodes of a model that an organization may use, up or not."""
    query = select(*ROOM).where(
        nodes.c.organization_id.in_(("", organization_id)),
        nodes.c.gpu_model_id == gpu_model_id,
        nodes.c.removed_at.is_(None),
    )
    return _rooms(connection, query.order_by(nodes.c.sequence))


def free_by_model(connection: Connection, organization_id: str) -> dict[str, tuple[int, int]]:
    """Per model, on nodes that the organization may use and that are up: free GPUs, and the most on one node."""
    query = select(nodes.c.gpu_model_id, func.sum(nodes.c.free_count), func.max(nodes.c.free_count)).where(
        nodes.c.organization_id.in_(("", organization_id)), nodes.c.schedulable == text("1")
    )
    rows = connection.execute(query.group_by(nodes.c.gpu_model_id))
    return {model: (free, most) for model, free, most in rows}


def room_of(connection: Connection, node_id: str) -> NodeRoom | None:
    """One node that was not removed."""
    query = select(*ROOM).where(nodes.c.id == node_id, nodes.c.removed_at.is_(None))
    return next(iter(_rooms(connection, query)), None)


def set_reporting(tx: Tx, node_id: str, reporting: bool) -> None:
    """Make a node fall silent or report again; a silent one takes nothing on."""
    change = update(nodes).where(nodes.c.id == node_id, nodes.c.removed_at.is_(None))
    tx.connection.execute(change.values(reporting=reporting, schedulable=reporting))


def set_infiniband_agent(tx: Tx, node_id: str, capable: bool) -> None:
    """Say whether the node's agent is recent enough for InfiniBand."""
    tx.connection.execute(update(nodes).where(nodes.c.id == node_id).values(infiniband_agent=capable))


def set_removed(tx: Tx, node_id: str) -> None:
    """Take a node off the platform; whatever sat on it must have been terminated before."""
    change = update(nodes).where(nodes.c.id == node_id)
    tx.connection.execute(change.values(reporting=False, schedulable=False, removed_at=tx.now))


def _rooms(connection: Connection, query: Select[str, str, int, int, int, str, str, bool]) -> list[NodeRoom]:
    return [
        NodeRoom(
            id=row.id,
            gpu_model_id=row.gpu_model_id,
            gpu_count=row.gpu_count,
            free_count=row.free_count,
            ram_gb=row.ram_gb,
            region=row.region,
            organization_id=row.organization_id,
            schedulable=row.schedulable,
        )
        for row in connection.execute(query)
    ]
