"""Which GPU has which holder, and which node has room: claims of whole units, each with one holder, and refusals.

`free_count` of a node, its units that are neither held nor reserved, is stored beside its claims, so that finding room
reads a few index entries and no claim. On a real node it counts only GPUs that are left for the cloud (`offer`).
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    ForeignKeyConstraint,
    Index,
    Integer,
    bindparam,
    delete,
    func,
    literal,
    or_,
    select,
    text,
)

from relay_localcloud.capacity import nodes as nodes_of
from relay_localcloud.capacity import reservations
from relay_localcloud.capacity.nodes import ROOM, nodes, room_of
from relay_localcloud.capacity.placement import Demand, NodeRoom, choose_node, choose_units, could_ever_hold
from relay_localcloud.http.errors import ApiError
from relay_localcloud.kernel.prepared import Prepared
from relay_localcloud.kernel.rows import Rows
from relay_localcloud.kernel.store import Tx

RETRY_AFTER_SECONDS: Final = 10
"""The suggested wait for transient saturation; section 7 requires an integer, without a value."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A unit with a holder."""

    node_id: str
    unit: int
    holder_id: str  # a pod, a VM or a replica
    workload_id: str  # the pod, the VM or the replica's cluster


CLAIMS: Final = Rows(
    Claim,
    "claims",
    ForeignKeyConstraint(["node_id"], ["nodes.id"]),
    Index("claims_of_holder", "holder_id"),
    key=("node_id", "unit"),
    order="unit",
    sqlite_with_rowid=False,
)
claims: Final = CLAIMS.table


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


_IN_REGION, _IN_POOL = nodes.c.region == bindparam("region"), nodes.c.node_pool == bindparam("pool")
_TIGHTEST: Final = {
    frozenset[str](): _tightest(),
    frozenset({"region"}): _tightest(_IN_REGION),
    frozenset({"pool"}): _tightest(_IN_POOL),
    frozenset({"region", "pool"}): _tightest(_IN_REGION, _IN_POOL),
}
"""The bounds of a search for room besides owner, model and size."""
_TAKEN = Prepared(select(claims.c.unit).where(claims.c.node_id == bindparam("node")))  # a node may have thousands
_RELEASE = Prepared(
    delete(claims).where(claims.c.holder_id == bindparam("holder")).returning(claims.c.node_id, claims.c.unit)
)


def unit_holders(tx: Tx, **equal: object) -> dict[tuple[str, int], str]:
    """The holders of claimed units of all nodes or of a `node_id`: (node, unit) to the id of the pod, VM or cluster."""
    return {(claim.node_id, claim.unit): claim.workload_id for claim in CLAIMS.all(tx, **equal)}


def claimed_by_node(connection: Connection) -> dict[str, int]:
    """The number of claimed units of each node that has any."""
    query = select(claims.c.node_id, func.count()).group_by(claims.c.node_id)
    return dict(connection.execute(query).all())


def holdings(tx: Tx, node_id: str, units: Collection[int]) -> list[Claim]:
    """The claims of these units of a node, in the order of the units."""
    return [claim for claim in CLAIMS.all(tx, node_id=node_id) if claim.unit in units]


def find_room(connection: Connection, demand: Demand) -> NodeRoom | None:
    """The node to place the demand on now, or None."""
    lent = _lent_rooms(connection, demand) if demand.spot and demand.node_pool is None else ()
    return choose_node([*_shortlist(connection, demand), *lent], demand)


def room_at(connection: Connection, node_id: str, organization_id: str, *, named: bool, spot: bool) -> NodeRoom | None:
    """One node as an organization may use it; `named`: the request names this very node. None for a removed one."""
    room = room_of(connection, node_id)
    if room is None:
        return None
    granted = reservations.granted_units(connection, node_id, organization_id, named=named, spot=spot)
    return _granting(room, organization_id, granted)


def _any_could_hold(connection: Connection, demand: Demand) -> bool:
    """Whether some node could hold the demand if it were empty and up."""
    if demand.node_pool is not None:
        return any(could_ever_hold(room, demand) for room in nodes_of.rooms_for(connection, demand))
    n = nodes.c
    is_open = n.organization_id.in_(("", demand.organization_id))
    lent = reservations.nodes_lending(demand.gpu_count)
    query = select(n.id).where(
        or_(is_open, n.id.in_(lent)) if demand.spot else is_open,
        n.gpu_model_id == demand.gpu_model_id,
        n.removed_at.is_(None),
        n.gpu_count >= demand.gpu_count,
        _entitlement_holds(literal(demand.gpu_count), literal(demand.shm_gb)),
    )
    return connection.execute(query.limit(1)).first() is not None


def claim(tx: Tx, room: NodeRoom, gpu_count: int, workload_id: str, *holder_ids: str) -> None:
    """Claim whole GPUs of a node with room for each holder, by default the workload itself; granted ones come first."""
    holders = holder_ids or (workload_id,)
    granted = room.granted[: gpu_count * len(holders)]
    wanted = gpu_count * len(holders) - len(granted)
    units = (*granted, *choose_units(_free_units(tx, room) if wanted else (), wanted))
    same = {"node_id": room.id, "workload_id": workload_id}
    held = ({**same, "unit": unit, "holder_id": holders[place // gpu_count]} for place, unit in enumerate(units))
    CLAIMS.insert_all(tx, held)
    reservations.set_free(tx, room.id, granted, free=False)
    nodes_of.change_free(tx, room.id, -wanted)


def claim_each(tx: Tx, demand: Demand, workload_id: str, holder_ids: Sequence[str]) -> list[str]:
    """Place one demand for each holder, as far as there is room; returns the nodes, in the order of the holders.

    The tightest node stays so until it is full.
    """
    homes: list[str] = []
    while len(homes) < len(holder_ids) and (room := find_room(tx.connection, demand)) is not None:
        fitting = 1 if room.granted else room.free_count // demand.gpu_count
        holders = holder_ids[len(homes) :][:fitting]
        claim(tx, room, demand.gpu_count, workload_id, *holders)
        homes += [room.id] * len(holders)
    return homes


def _free_units(tx: Tx, room: NodeRoom) -> tuple[int, ...]:
    taken: set[int] = set()
    if room.free_count < room.gpu_count:
        taken.update(unit for (unit,) in _TAKEN.run(tx.connection, node=room.id))
        taken.update(reservations.on_node(tx, room.id))
    return tuple(unit for unit in range(room.gpu_count) if unit not in taken)


def release(tx: Tx, *holder_ids: str) -> None:
    """Release every GPU of the holders, if they have any."""
    released: defaultdict[str, list[int]] = defaultdict(list)
    for holder_id in holder_ids:
        for node_id, unit in _RELEASE.run(tx.connection, holder=holder_id).fetchall():
            released[node_id].append(unit)
    for node_id, units in released.items():
        reserved = reservations.on_node(tx, node_id)
        returned = sorted(reserved.intersection(units))
        reservations.set_free(tx, node_id, returned, free=True)
        nodes_of.change_free(tx, node_id, len(units) - len(returned))


def offer(tx: Tx, node_id: str, gpu_count: int, ram_gb: int) -> bool:
    """Offer so many GPUs of a node: others use the rest, or it is away. Returns whether more are free than before.

    Holders keep their units. If they have more than are left, the node has no free ones until enough are released.
    """
    node = nodes_of.get(tx, node_id)
    free_count = gpu_count - len(_held(tx, node_id))
    if free_count != node.free_count or gpu_count > node.gpu_count:
        most = {"gpu_count": max(gpu_count, node.gpu_count), "ram_gb": max(ram_gb, node.ram_gb)}
        nodes_of.NODES.change(tx, node_id, free_count=free_count, **most)
    return free_count > node.free_count


def has_units(tx: Tx, room: NodeRoom, gpu_count: int) -> bool:
    """Whether so many units of a node may have another holder, free or not."""
    return room.gpu_count - len(_held(tx, room.id)) + len(room.granted) >= gpu_count


def _held(tx: Tx, node_id: str) -> set[int]:
    """The units of a node that have a holder or are reserved."""
    return {*reservations.on_node(tx, node_id), *(claim.unit for claim in CLAIMS.all(tx, node_id=node_id))}


def _granting(room: NodeRoom, organization_id: str, granted: tuple[int, ...]) -> NodeRoom:
    return replace(room, free_count=room.free_count if room.is_open_to(organization_id) else 0, granted=granted)


def _lent_rooms(connection: Connection, demand: Demand) -> Iterator[NodeRoom]:
    for node_id, units in reservations.lent_units(connection, demand.gpu_model_id).items():
        room = room_of(connection, node_id)
        assert room is not None, "a node that was removed has no reservation"
        yield _granting(room, demand.organization_id, units)


def _shortlist(connection: Connection, demand: Demand) -> Iterator[NodeRoom]:
    """The tightest fit of each preference: the organization's own nodes before shared ones, its regions before others.

    Placement prefers by owner, region and fit alone, so the best of all nodes without lent units is among them.
    """
    any_region = demand.allow_fallback or not demand.preferred_regions
    pool = nodes_of.pool_of(connection, demand)
    for owner in (demand.organization_id, ""):
        for region in (*demand.preferred_regions, *((None,) if any_region else ())):
            bounds = {name: value for name, value in (("region", region), ("pool", pool)) if value is not None}
            row = (
                _TIGHTEST[frozenset(bounds)]
                .run(
                    connection,
                    owner=owner,
                    model=demand.gpu_model_id,
                    count=demand.gpu_count,
                    shm=demand.shm_gb,
                    **bounds,
                )
                .fetchone()
            )
            if row is not None:
                yield NodeRoom(*row)


def saturated(tx: Tx, code: str, message: str) -> ApiError:
    """Transient saturation: the request is valid and may be repeated unchanged."""
    headers = {"Retry-After": str(RETRY_AFTER_SECONDS)}
    return ApiError(tx.settings.capacity_status, message, code, headers)


def no_room(tx: Tx, *demands: Demand) -> ApiError:
    """Why no demand found a node: saturation, or 422 if no node could ever hold one. They differ in the model alone."""
    never = _never(tx, *demands)
    if never is not None:
        return never
    asked = demands[0]
    where = "" if asked.node_pool is None else f" of the pool {asked.node_pool}"
    message = f"No node{where} has {_wanted(*demands)} free now: try again later."
    return saturated(tx, "INSUFFICIENT_GPU_CAPACITY", message)


def require_holdable(tx: Tx, demand: Demand) -> None:
    """Refuse with 422 a demand that no node could ever hold, whatever is free now."""
    never = _never(tx, demand)
    if never is not None:
        raise never


def _wanted(*demands: Demand) -> str:
    return f"{demands[0].gpu_count} x {demands[0].gpu_model_id if len(demands) == 1 else 'any model'}"


def _never(tx: Tx, *demands: Demand) -> ApiError | None:
    """The 422 if there are nodes, but none could ever hold one of the demands."""
    rooms = [room for demand in demands for room in nodes_of.rooms_for(tx.connection, demand)]
    if not rooms or any(_any_could_hold(tx.connection, demand) for demand in demands):
        return None
    asked, wanted, largest = demands[0], _wanted(*demands), max(room.gpu_count for room in rooms)
    if asked.gpu_count > largest:
        message = f"{asked.counted_as}: no node has {wanted}; the largest has {largest}."
        return ApiError(422, message, "GPU_COUNT_NOT_PLACEABLE")
    message = f"shmSizeGb: {asked.shm_gb} GiB is over the memory entitlement of {wanted} on every node."
    return ApiError(422, message, "SHM_OVER_ENTITLEMENT")
