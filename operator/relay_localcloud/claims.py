"""Who holds which GPU, and where there is room: claims of whole units, each with one holder.

`free_count` of a node is kept beside its claims, so that finding room reads a few index entries and no claim.
"""

from collections.abc import Iterator

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    ForeignKey,
    Index,
    Integer,
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

from relay_localcloud.nodes import ROOM, nodes
from relay_localcloud.placement import Demand, NodeRoom, choose_node, choose_units
from relay_localcloud.prepared import Prepared
from relay_localcloud.schema import metadata
from relay_localcloud.store import Tx

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


def _entitlement_holds(gpu_count: ColumnElement[int], shm_gb: ColumnElement[int]) -> ColumnElement[bool]:
    return nodes.c.ram_gb * gpu_count >= shm_gb * nodes.c.gpu_count


def _tightest(*more: ColumnElement[bool]) -> Prepared:
    n = nodes.c
    count, shm = bindparam("count", type_=Integer), bindparam("shm", type_=Integer)
    query = select(*ROOM).where(
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


def unit_holders(connection: Connection, node_id: str | None = None) -> dict[tuple[str, int], str]:
    """Who holds each claimed unit, of one node or of all: (node, unit) to the id of the pod, VM or cluster."""
    query = select(claims.c.node_id, claims.c.unit, claims.c.workload_id)
    if node_id is not None:
        query = query.where(claims.c.node_id == node_id)
    return {(row.node_id, row.unit): row.workload_id for row in connection.execute(query)}


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
