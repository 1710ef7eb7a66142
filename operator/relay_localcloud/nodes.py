"""The machines: what they have, who holds which GPU of them, and how they come, fall silent and go.

`free_count` of a node is kept beside its claims, so that finding room reads a few index entries and no claim.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    ForeignKey,
    Index,
    Integer,
    RowMapping,
    Select,
    String,
    Table,
    bindparam,
    delete,
    insert,
    literal,
    select,
    text,
    update,
)

from relay_localcloud.catalog import GPU_MODELS, LARGEST_NODE, LOCATIONS, SEEDED_NODE_LOCATIONS, GpuModel
from relay_localcloud.placement import Demand, NodeRoom, choose_node, choose_units
from relay_localcloud.prepared import Prepared
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

claims = Table(
    "claims",
    metadata,
    Column("node_id", ForeignKey("nodes.id"), primary_key=True),
    Column("unit", Integer, primary_key=True),
    Column("holder_id", String, nullable=False),  # a pod, a VM or a replica
    Column("workload_id", String, nullable=False),  # the pod, the VM or the replica's cluster
    Index("claims_of_holder", "holder_id"),
    sqlite_with_rowid=False,
)

_ROOM = (
    nodes.c.id,
    nodes.c.gpu_model_id,
    nodes.c.gpu_count,
    nodes.c.free_count,
    nodes.c.ram_gb,
    nodes.c.region,
    nodes.c.organization_id,
    nodes.c.schedulable,
)


def _entitlement_holds(gpu_count: ColumnElement[int], shm_gb: ColumnElement[int]) -> ColumnElement[bool]:
    return nodes.c.ram_gb * gpu_count >= shm_gb * nodes.c.gpu_count


def _tightest(*more: ColumnElement[bool]) -> Prepared:
    n = nodes.c
    count, shm = bindparam("count", type_=Integer), bindparam("shm", type_=Integer)
    query = select(*_ROOM).where(
        n.organization_id == bindparam("owner"),
        n.gpu_model_id == bindparam("model"),
        n.schedulable == text("1"),
        n.free_count >= count,
        _entitlement_holds(count, shm),
        *more,
    )
    return Prepared(query.order_by(n.free_count, n.sequence).limit(1))


_TIGHTEST = _tightest()
_TIGHTEST_IN_REGION = _tightest(nodes.c.region == bindparam("region"))
_TAKEN = Prepared(select(claims.c.unit).where(claims.c.node_id == bindparam("node")))
_CLAIM = Prepared(insert(claims))
_RELEASE = Prepared(delete(claims).where(claims.c.holder_id == bindparam("holder")).returning(claims.c.node_id))
_CHANGE_FREE = Prepared(
    update(nodes).where(nodes.c.id == bindparam("node")).values(free_count=nodes.c.free_count + bindparam("by"))
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


def unit_holders(connection: Connection, node_id: str | None = None) -> dict[tuple[str, int], str]:
    """Who holds each claimed unit, of one node or of all: (node, unit) to the id of the pod, VM or cluster."""
    query = select(claims.c.node_id, claims.c.unit, claims.c.workload_id)
    if node_id is not None:
        query = query.where(claims.c.node_id == node_id)
    return {(row.node_id, row.unit): row.workload_id for row in connection.execute(query)}


def rooms_of_model(connection: Connection, gpu_model_id: str, organization_id: str) -> list[NodeRoom]:
    """The nodes of a model that an organization may use, up or not."""
    query = select(*_ROOM).where(
        nodes.c.organization_id.in_(("", organization_id)),
        nodes.c.gpu_model_id == gpu_model_id,
        nodes.c.removed_at.is_(None),
    )
    return _rooms(connection, query.order_by(nodes.c.sequence))


def room_of(connection: Connection, node_id: str) -> NodeRoom | None:
    """One node that was not removed."""
    query = select(*_ROOM).where(nodes.c.id == node_id, nodes.c.removed_at.is_(None))
    return next(iter(_rooms(connection, query)), None)


def find_room(connection: Connection, demand: Demand) -> NodeRoom | None:
    """The node to place the demand on now, or None."""
    return choose_node(_shortlist(connection, demand), demand)


def any_could_hold(connection: Connection, demand: Demand) -> bool:
    """Whether some node, empty and up, would hold the demand."""
    n = nodes.c
    query = select(n.id).where(
        n.organization_id.in_(("", demand.organization_id)),
        n.gpu_model_id == demand.gpu_model_id,
        n.removed_at.is_(None),
        n.gpu_count >= demand.gpu_count,
        _entitlement_holds(literal(demand.gpu_count), literal(demand.shm_gb)),
    )
    return connection.execute(query.limit(1)).first() is not None


def claim(tx: Tx, room: NodeRoom, gpu_count: int, holder_id: str, workload_id: str) -> None:
    """Give whole GPUs of a node with room to a holder."""
    taken: set[int] = set()
    if room.free_count < room.gpu_count:
        taken.update(unit for (unit,) in _TAKEN.run(tx.connection, node=room.id))
    for unit in choose_units(room.gpu_count, taken, gpu_count):
        _CLAIM.run(tx.connection, node_id=room.id, unit=unit, holder_id=holder_id, workload_id=workload_id)
    _CHANGE_FREE.run(tx.connection, node=room.id, by=-gpu_count)


def release(tx: Tx, holder_id: str) -> None:
    """Take back every GPU of a holder; none held is fine."""
    released = [node_id for (node_id,) in _RELEASE.run(tx.connection, holder=holder_id)]
    if released:
        _CHANGE_FREE.run(tx.connection, node=released[0], by=len(released))  # a holder's GPUs are all on one node


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


def _shortlist(connection: Connection, demand: Demand) -> Iterator[NodeRoom]:
    """The tightest fit of each preference: the organization's own nodes before shared ones, its regions before others.

    Placement prefers by owner, region and fit alone, so the best of all nodes is among them.
    """
    any_region = demand.allow_fallback or not demand.preferred_regions
    for owner in (demand.organization_id, ""):
        for region in (*demand.preferred_regions, *((None,) if any_region else ())):
            query = _TIGHTEST if region is None else _TIGHTEST_IN_REGION
            row = query.run(
                connection,
                owner=owner,
                model=demand.gpu_model_id,
                count=demand.gpu_count,
                shm=demand.shm_gb,
                **({} if region is None else {"region": region}),
            ).fetchone()
            if row is not None:
                yield NodeRoom(*row)


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
