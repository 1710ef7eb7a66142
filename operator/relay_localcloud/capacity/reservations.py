"""Reservations of GPU units (section 2, "Node reservation"), the units that are reserved now, and who may have them.

A reservation has its units from `startsAt` until `endsAt`: they are not in the node's `free_count`, and only allowed
organizations may have them, or, while it is released, any request with tier `spot` (section 2, "Catalog availability").
A unit that is held when its reservation begins stays with its holder, and is the reservation's afterwards.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    ForeignKeyConstraint,
    Index,
    Select,
    and_,
    exists,
    false,
    func,
    or_,
    select,
    text,
)

from relay_localcloud.capacity.nodes import change_free, nodes
from relay_localcloud.kernel.rows import Rows
from relay_localcloud.kernel.store import Tx

PLATFORM_OPERATIONS: Final = "org_platform_ops"
"""The platform ops org, which every reservation allows (section 2); it has no keys."""


class ReservationStatus(StrEnum):
    """The phase of a reservation; section 2 names no values, so all are assumed."""

    SCHEDULED = "scheduled"
    ACTIVE = "active"
    RELEASED = "released"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Reservation:
    """A reservation; `units` are indexes on the node."""

    sequence: int
    id: str
    node_id: str
    units: tuple[int, ...]
    allowed_org_ids: tuple[str, ...]
    managing_org_ids: tuple[str, ...]
    starts_at: int
    ends_at: int | None  # None: open-ended
    status: ReservationStatus
    contract_ref: str | None
    reason: str | None
    created_at: int


RESERVATIONS: Final = Rows(
    Reservation,
    "reservations",
    ForeignKeyConstraint(["node_id"], ["nodes.id"]),
    Index("ix_reservations_node_id", "node_id"),
)
reservations: Final = RESERVATIONS.table


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of a reservation that is active or released."""

    node_id: str
    unit: int
    reservation_id: str
    lent: bool  # to spot
    free: bool  # stored beside the claims, like a node's `free_count`


UNITS: Final = Rows(Unit, "reserved_units", ForeignKeyConstraint(["node_id"], ["nodes.id"]), key=("node_id", "unit"))
reserved_units: Final = UNITS.table


@dataclass(frozen=True, slots=True)
class ReservedUnit:
    """A unit that is reserved at this instant; `allowed`: for the organization that asks."""

    node_id: str
    unit: int
    lent: bool
    free: bool
    allowed: bool


def reserve(tx: Tx, reservation: Reservation, taken: Collection[int]) -> None:
    """Withdraw a reservation's units from free placement; `taken` are those with a holder."""
    for unit in reservation.units:
        whose = {"node_id": reservation.node_id, "unit": unit, "reservation_id": reservation.id}
        UNITS.insert(tx, **whose, lent=False, free=unit not in taken)
    change_free(tx, reservation.node_id, -len(set(reservation.units).difference(taken)))


def give_back(tx: Tx, reservation: Reservation) -> None:
    """Return a reservation's units to free placement."""
    free = sum(unit.free for unit in UNITS.all(tx, reservation_id=reservation.id))
    UNITS.remove(tx, reservation_id=reservation.id)
    change_free(tx, reservation.node_id, free)


def lend(tx: Tx, reservation_id: str, lent: bool) -> None:
    """Lend a reservation's units to spot, or reclaim them."""
    UNITS.change_all(tx, {"lent": lent}, reservation_id=reservation_id)


def on_node(tx: Tx, node_id: str) -> frozenset[int]:
    """The reserved units of a node."""
    return frozenset(unit.unit for unit in UNITS.all(tx, node_id=node_id))


def set_free(tx: Tx, node_id: str, units: Sequence[int], free: bool) -> None:
    """Record that reserved units were claimed or released."""
    for unit in units:
        UNITS.change_all(tx, {"free": free}, node_id=node_id, unit=unit)


def granted_units(
    connection: Connection, node_id: str, organization_id: str, *, named: bool, spot: bool
) -> tuple[int, ...]:
    """The free reserved units of a node that a workload may have: those of its organization if it names the node, and
    lent ones if it is spot.
    """
    if not (named or spot):
        return ()
    u = reserved_units.c
    reserved = and_(u.lent.is_(False), _allows(organization_id))
    rights = or_(u.lent if spot else false(), reserved if named else false())
    query = select(u.unit).where(u.node_id == node_id, u.free, rights).order_by(u.unit)
    return tuple(connection.execute(query).scalars())


def gives_rights(connection: Connection, node_id: str, organization_id: str, *, spot: bool) -> bool:
    """Whether some unit of the node is reserved for the organization, or lent if the request is spot."""
    u = reserved_units.c
    rights = and_(u.lent.is_(False), _allows(organization_id))
    query = select(u.unit).where(u.node_id == node_id, or_(rights, u.lent) if spot else rights)
    return connection.execute(query.limit(1)).first() is not None


def lent_units(connection: Connection, gpu_model_id: str) -> dict[str, tuple[int, ...]]:
    """The free units of a model that are lent to spot, by node, on nodes that accept workloads."""
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
    """The ids of nodes with at least so many units lent to spot, held or not."""
    u = reserved_units.c
    return select(u.node_id).where(u.lent).group_by(u.node_id).having(func.count() >= count)


def regions(connection: Connection, organization_id: str) -> set[str]:
    """The regions of nodes that an organization may use, has reserved units of, or that lend units to spot."""
    n, u = nodes.c, reserved_units.c
    with_units = select(u.node_id).where(or_(u.lent, _allows(organization_id)))
    usable = or_(n.organization_id.in_(("", organization_id)), n.id.in_(with_units))
    return set(connection.execute(select(n.region).distinct().where(n.removed_at.is_(None), usable)).scalars())


def every(connection: Connection, organization_id: str) -> list[ReservedUnit]:
    """Every reserved unit, as an organization sees it."""
    return _seen(connection, _as_seen_by(organization_id))


def of_node(connection: Connection, node_id: str, organization_id: str) -> list[ReservedUnit]:
    """Every reserved unit of a node, as an organization sees it."""
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
