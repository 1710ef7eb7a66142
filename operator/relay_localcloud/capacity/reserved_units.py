"""Units that are reserved at this instant, and who may have them.

A reservation has its units from `startsAt` until `endsAt`: they are out of the node's `free_count`, for the allowed
organizations alone, or, while it is released, for whoever asks with tier `spot` (section 2, "Catalog availability").
A unit that somebody holds when its reservation begins stays with its holder, and is the reservation's afterwards.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import (
    Boolean,
    Column,
    ColumnElement,
    Connection,
    ForeignKey,
    Integer,
    Select,
    String,
    Table,
    and_,
    bindparam,
    delete,
    exists,
    false,
    func,
    insert,
    or_,
    select,
    text,
    update,
)

from relay_localcloud.capacity.nodes import nodes
from relay_localcloud.capacity.reservations import Reservation, reservations
from relay_localcloud.kernel.prepared import Prepared
from relay_localcloud.kernel.schema import metadata
from relay_localcloud.kernel.store import Tx

reserved_units = Table(
    "reserved_units",
    metadata,
    Column("node_id", ForeignKey("nodes.id"), primary_key=True),
    Column("unit", Integer, primary_key=True),
    Column("reservation_id", String, nullable=False),
    Column("lent", Boolean, nullable=False),  # to spot
    Column("free", Boolean, nullable=False),  # kept beside the claims, as a node's `free_count`
)
"""The units of reservations that are active or released."""


@dataclass(frozen=True, slots=True)
class ReservedUnit:
    """A unit that is reserved at this instant; `allowed` is for the organization that looks."""

    node_id: str
    unit: int
    lent: bool
    free: bool
    allowed: bool


_RESERVED = Prepared(select(reserved_units.c.unit).where(reserved_units.c.node_id == bindparam("node")))
_SET_FREE = Prepared(
    update(reserved_units)
    .where(reserved_units.c.node_id == bindparam("node"), reserved_units.c.unit == bindparam("of_unit"))
    .values(free=bindparam("is_free"))
)


def reserve(tx: Tx, reservation: Reservation, taken: Collection[int]) -> None:
    """Take a reservation's units out of what can be placed freely; `taken` are those that somebody holds."""
    rows = [
        {
            "node_id": reservation.node_id,
            "unit": unit,
            "reservation_id": reservation.id,
            "lent": False,
            "free": unit not in taken,
        }
        for unit in reservation.units
    ]
    tx.connection.execute(insert(reserved_units), rows)
    _change_free(tx, reservation.node_id, -sum(bool(row["free"]) for row in rows))


def give_back(tx: Tx, reservation: Reservation) -> None:
    """Let a reservation's units be placed freely again."""
    gone = delete(reserved_units).where(reserved_units.c.reservation_id == reservation.id)
    free = tx.connection.execute(gone.returning(reserved_units.c.free)).scalars().all()
    _change_free(tx, reservation.node_id, sum(free))


def lend(tx: Tx, reservation_id: str, lent: bool) -> None:
    """Lend a reservation's units to spot, or take them back."""
    tx.connection.execute(
        update(reserved_units).where(reserved_units.c.reservation_id == reservation_id).values(lent=lent)
    )


def on_node(connection: Connection, node_id: str) -> frozenset[int]:
    """The units of a node that are reserved."""
    return frozenset(unit for (unit,) in _RESERVED.run(connection, node=node_id))


def set_free(tx: Tx, node_id: str, units: Sequence[int], free: bool) -> None:
    """Keep that reserved units were claimed or released."""
    for unit in units:
        _SET_FREE.run(tx.connection, node=node_id, of_unit=unit, is_free=free)


def granted_units(
    connection: Connection, node_id: str, organization_id: str, *, named: bool, spot: bool
) -> tuple[int, ...]:
    """The free reserved units of a node that a workload may have: its organization's where it names the node, lent
    ones where it is spot.
    """
    if not (named or spot):
        return ()
    u = reserved_units.c
    reserved = and_(u.lent.is_(False), _allows(organization_id))
    rights = or_(u.lent if spot else false(), reserved if named else false())
    query = select(u.unit).where(u.node_id == node_id, u.free, rights).order_by(u.unit)
    return tuple(connection.execute(query).scalars())


def gives_rights(connection: Connection, node_id: str, organization_id: str, *, spot: bool) -> bool:
    """Whether some unit of the node is reserved to the organization, or lent where it asks as spot."""
    u = reserved_units.c
    rights = and_(u.lent.is_(False), _allows(organization_id))
    query = select(u.unit).where(u.node_id == node_id, or_(rights, u.lent) if spot else rights)
    return connection.execute(query.limit(1)).first() is not None


def lent_units(connection: Connection, gpu_model_id: str) -> dict[str, tuple[int, ...]]:
    """The units of a model that are lent to spot and free, by node, on nodes that take workloads on."""
    u, n = reserved_units.c, nodes.c
    query = (
        select(u.node_id, u.unit)
        .join(nodes, n.id == u.node_id)
        .where(u.lent, u.free, n.gpu_model_id == gpu_model_id, n.schedulable)
        .order_by(n.sequence, u.unit)
    )
    lent: dict[str, tuple[int, ...]] = {}
    for node_id, unit in connection.execute(query):
        lent[node_id] = (*lent.get(node_id, ()), unit)
    return lent


def nodes_lending(count: int) -> Select[str]:
    """The ids of nodes with at least so many units that are lent to spot, taken or not."""
    u = reserved_units.c
    return select(u.node_id).where(u.lent).group_by(u.node_id).having(func.count() >= count)


def every(connection: Connection, organization_id: str) -> list[ReservedUnit]:
    """Every unit that is reserved, as an organization sees it."""
    return _seen(connection, _as_seen_by(organization_id))


def of_node(connection: Connection, node_id: str, organization_id: str) -> list[ReservedUnit]:
    """Every unit of a node that is reserved, as an organization sees it."""
    return _seen(connection, _as_seen_by(organization_id).where(reserved_units.c.node_id == node_id))


def _as_seen_by(organization_id: str) -> Select[str, int, bool, bool, bool]:
    u = reserved_units.c
    return select(u.node_id, u.unit, u.lent, u.free, _allows(organization_id).label("allowed"))


def _seen(connection: Connection, query: Select[str, int, bool, bool, bool]) -> list[ReservedUnit]:
    return [ReservedUnit(*row) for row in connection.execute(query)]


def _allows(organization_id: str) -> ColumnElement[bool]:
    r = reservations.c
    allowed = func.json_each(r.allowed_org_ids).table_valued("value")
    query = select(r.id).select_from(reservations).join(allowed, text("1"))
    return exists(query.where(r.id == reserved_units.c.reservation_id, allowed.c.value == organization_id))


def _change_free(tx: Tx, node_id: str, by: int) -> None:
    tx.connection.execute(update(nodes).where(nodes.c.id == node_id).values(free_count=nodes.c.free_count + by))
