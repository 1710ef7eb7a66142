"""What must hold before units of a node are reserved, then the reservation."""

from collections.abc import Sequence

from sqlalchemy import RowMapping, select

from relay_localcloud.capacity import claims, nodes, reservations
from relay_localcloud.capacity.reservations import PLATFORM_OPERATIONS, Reservation, ReservationStatus
from relay_localcloud.http.errors import ApiError
from relay_localcloud.kernel import tables
from relay_localcloud.kernel.instants import parse_timestamp, timestamp
from relay_localcloud.kernel.store import Tx
from relay_localcloud.providers import reservation_moves
from relay_wire.reservations import ReservationCreate


def create(tx: Tx, node: RowMapping, body: ReservationCreate) -> Reservation:
    """Reserve units of a node, from now on or from `startsAt`.

    ApiError 400 for a window that is none, 422 for units and organizations that do not exist, 409 for units that
    somebody holds or reserved for a part of that time.
    """
    starts_at, ends_at = _window(tx, body)
    units = _units(node, body.unit_ids)
    allowed = tuple(dict.fromkeys((*body.allowed_org_ids, PLATFORM_OPERATIONS)))
    managing = tuple(dict.fromkeys(body.managing_org_ids or ()))
    _require_organizations(tx, "allowedOrgIds", allowed)
    _require_organizations(tx, "managingOrgIds", managing)
    if node["removed_at"] is not None:
        raise ApiError(409, f"The node {node['id']!r} was removed.")
    _require_unused(tx, node["id"], units)
    _require_unreserved(tx, node["id"], units, starts_at, ends_at)
    made = reservations.RESERVATIONS.insert(
        tx,
        id=tx.new_id("rsv"),
        node_id=node["id"],
        units=units,
        allowed_org_ids=allowed,
        managing_org_ids=managing,
        starts_at=starts_at,
        ends_at=ends_at,
        status=ReservationStatus.SCHEDULED,
        contract_ref=body.contract_ref,
        reason=body.reason,
        created_at=tx.now,
    )
    return reservation_moves.arm(tx, made)


def _window(tx: Tx, body: ReservationCreate) -> tuple[int, int | None]:
    starts_at = tx.now if body.starts_at is None else _instant("startsAt", body.starts_at)
    if body.ends_at is None:
        return starts_at, None
    ends_at = _instant("endsAt", body.ends_at)
    if ends_at <= starts_at:
        raise ApiError(400, "endsAt: it must lie after startsAt.")
    if ends_at <= tx.now:
        raise ApiError(400, f"endsAt: it must lie in the future; it is {timestamp(tx.now)} now.")
    return starts_at, ends_at


def _instant(field: str, given: str) -> int:
    try:
        return parse_timestamp(given)
    except ValueError:
        raise ApiError(
            400, f"{field}: this is no timestamp with a zone between 1970 and 9999, such as 2026-01-01T00:00:00Z."
        ) from None


def _units(node: RowMapping, unit_ids: Sequence[str]) -> tuple[int, ...]:
    units = {nodes.unit_id(node["id"], unit): unit for unit in range(node["gpu_count"])}
    unknown = next((unit_id for unit_id in unit_ids if unit_id not in units), None)
    if unknown is not None:
        raise ApiError(422, f"unitIds: the node {node['id']!r} has no GPU unit {unknown!r}.")
    return tuple(units[unit_id] for unit_id in dict.fromkeys(unit_ids))


def _require_organizations(tx: Tx, field: str, organization_ids: Sequence[str]) -> None:
    organization = tables.organizations.c.id
    query = select(organization).where(organization.in_(organization_ids))
    unknown = set(organization_ids) - {PLATFORM_OPERATIONS, *tx.connection.execute(query).scalars()}
    if unknown:
        raise ApiError(422, f"{field}: there is no organization {min(unknown)!r}.")


def _require_unused(tx: Tx, node_id: str, units: Sequence[int]) -> None:
    held = claims.holdings(tx.connection, node_id, units)
    if held:
        raise ApiError(409, f"unitIds: {nodes.unit_id(node_id, min(held))} is in use.")


def _require_unreserved(tx: Tx, node_id: str, units: Sequence[int], starts_at: int, ends_at: int | None) -> None:
    for other in reservations.of_node(tx.connection, node_id):
        over = other.status is ReservationStatus.ENDED
        before = ends_at is not None and ends_at <= other.starts_at
        after = other.ends_at is not None and other.ends_at <= starts_at
        shared = set(units).intersection(other.units)
        if shared and not (over or before or after):
            taken = nodes.unit_id(node_id, min(shared))
            raise ApiError(409, f"unitIds: {taken} is reserved by {other.id} for a part of that time.")
