"""Reservations of a provider node's GPU units (section 2, "Node reservation"); paths and answers are assumed.

The owner of the node creates and deletes them; it and the managing organizations read, release and reclaim them.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from sqlalchemy import select

from relay_localcloud.capacity import claims, nodes
from relay_localcloud.capacity.nodes import NODES, Node, unit_id
from relay_localcloud.capacity.reservations import (
    PLATFORM_OPERATIONS,
    RESERVATIONS,
    Reservation,
    ReservationStatus,
)
from relay_localcloud.http.bodies import Body
from relay_localcloud.http.errors import ApiError, not_found
from relay_localcloud.http.openapi import ASSUMED
from relay_localcloud.http.pages import PageRequest, among
from relay_localcloud.http.principal import MemberReader, OrganizationId, OrganizationWriter, ResourceId
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel import tables
from relay_localcloud.kernel.instants import parse_timestamp, timestamp
from relay_localcloud.kernel.rows import shown
from relay_localcloud.kernel.store import Tx
from relay_localcloud.providers import reservation_moves
from relay_localcloud.providers.applications import owned_node
from relay_localcloud.providers.reservation_states import ReservationTrigger
from relay_localcloud.providers.routes import NodeId
from relay_wire.reservations import Reservation as ReservationAnswer
from relay_wire.reservations import ReservationCreate, ReservationList

router = Router("Providers")

PATH = "/v1/orgs/{orgId}/provider/nodes/{nodeId}/reservations"

MOST_RESERVATIONS: Final = 200
"""Reservations of one node (assumed); all of them are read to find room for another."""


@router.post(PATH, response_model=ReservationAnswer, summary="Reserve GPU units", openapi_extra=ASSUMED)
def create_reservation(
    _: OrganizationWriter, organization_id: OrganizationId, node_id: NodeId, body: Body[ReservationCreate], tx: Tx
) -> dict[str, object]:
    """409 for units that are in use, or reserved for a part of that time, and beyond the most."""
    return _shown(tx, _create(tx, owned_node(tx, organization_id, node_id), body))


@router.get(PATH, response_model=ReservationList, summary="The reservations of a node", openapi_extra=ASSUMED)
def list_reservations(
    _: MemberReader, organization_id: OrganizationId, node_id: NodeId, page: PageRequest, tx: Tx
) -> dict[str, object]:
    """Answers a page, oldest first, those that ended included; a managing organization sees what it manages."""
    rows = among([(each.sequence, each) for each in _visible(tx, organization_id, node_id)])
    return page.oldest(f"reservations of {node_id}", organization_id, rows, partial(_shown, tx))


@router.get(f"{PATH}/{{id}}", response_model=ReservationAnswer, summary="Get a reservation", openapi_extra=ASSUMED)
def get_reservation(
    _: MemberReader, organization_id: OrganizationId, node_id: NodeId, reservation_id: ResourceId, tx: Tx
) -> dict[str, object]:
    """Answers it, also once it has ended."""
    return _shown(tx, _one(tx, organization_id, node_id, reservation_id))


@router.delete(f"{PATH}/{{id}}", status_code=204, summary="Delete a reservation", openapi_extra=ASSUMED)
def delete_reservation(
    _: OrganizationWriter, organization_id: OrganizationId, node_id: NodeId, reservation_id: ResourceId, tx: Tx
) -> None:
    """Ends it with the spot workloads on it; 409 while its own organizations use its units."""
    owned_node(tx, organization_id, node_id)
    reservation_moves.delete(tx, _one(tx, organization_id, node_id, reservation_id))


@router.post(
    f"{PATH}/{{id}}/release",
    response_model=ReservationAnswer,
    summary="Lend a reservation's units to spot",
    openapi_extra=ASSUMED,
)
def release_reservation(
    _: OrganizationWriter, organization_id: OrganizationId, node_id: NodeId, reservation_id: ResourceId, tx: Tx
) -> dict[str, object]:
    """409 while units are in use, before it begins and after its end; a second time changes nothing."""
    return _act(tx, (organization_id, node_id, reservation_id), ReservationTrigger.RELEASE)


@router.post(
    f"{PATH}/{{id}}/reclaim",
    response_model=ReservationAnswer,
    summary="Take a reservation's units back from spot",
    openapi_extra=ASSUMED,
)
def reclaim_reservation(
    _: OrganizationWriter, organization_id: OrganizationId, node_id: NodeId, reservation_id: ResourceId, tx: Tx
) -> dict[str, object]:
    """Terminates the spot workloads on them; 409 before it begins and after its end; a second time changes nothing."""
    return _act(tx, (organization_id, node_id, reservation_id), ReservationTrigger.RECLAIM)


def _act(tx: Tx, place: tuple[str, str, str], trigger: ReservationTrigger) -> dict[str, object]:
    return _shown(tx, reservation_moves.apply(tx, _one(tx, *place), trigger))


def _visible(tx: Tx, organization_id: str, node_id: str) -> list[Reservation]:
    every = RESERVATIONS.all(tx, node_id=node_id)
    if _owns(tx, organization_id, node_id):
        return every
    managed = [reservation for reservation in every if organization_id in reservation.managing_org_ids]
    if not managed:
        raise not_found("node", node_id)
    return managed


def _one(tx: Tx, organization_id: str, node_id: str, reservation_id: str) -> Reservation:
    found = RESERVATIONS.find(tx, id=reservation_id, node_id=node_id)
    if found is None or not (organization_id in found.managing_org_ids or _owns(tx, organization_id, node_id)):
        raise not_found("reservation", reservation_id)
    return found


def _owns(tx: Tx, organization_id: str, node_id: str) -> bool:
    node = NODES.find(tx, id=node_id)
    return node is not None and organization_id in nodes.owners(tx, node)


def _shown(tx: Tx, reservation: Reservation) -> dict[str, object]:
    return {
        **shown(reservation, "id", "node_id"),
        "unitIds": [unit_id(reservation.node_id, unit) for unit in reservation.units],
        **shown(reservation, "allowed_org_ids", "managing_org_ids", "starts_at", "ends_at", "status", "contract_ref"),
        **shown(reservation, "reason", "created_at"),
        "spotWorkloadIds": reservation_moves.guests(tx, reservation),
    }


def _create(tx: Tx, node: Node, body: ReservationCreate) -> Reservation:
    """Reserve units of a node, from now or from `startsAt`.

    ApiError 400 for an invalid window, 422 for units and organizations that do not exist, 409 for units that are held,
    or reserved for a part of that time.
    """
    starts_at, ends_at = _window(tx, body)
    units = _units(node, body.unit_ids)
    allowed = tuple(dict.fromkeys((*body.allowed_org_ids, PLATFORM_OPERATIONS)))
    managing = tuple(dict.fromkeys(body.managing_org_ids or ()))
    _require_organizations(tx, "allowedOrgIds", allowed)
    _require_organizations(tx, "managingOrgIds", managing)
    if node.removed_at is not None:
        raise ApiError(409, f"The node {node.id!r} was removed.")
    _require_unused(tx, node.id, units)
    others = RESERVATIONS.all(tx, node_id=node.id)
    if len(others) >= MOST_RESERVATIONS:
        raise ApiError(409, f"The node has {MOST_RESERVATIONS} reservations, ended ones included: delete some.")
    _require_unreserved(others, node.id, units, starts_at, ends_at)
    made = RESERVATIONS.insert(
        tx,
        id=tx.new_id("rsv"),
        node_id=node.id,
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
        raise ApiError(400, "endsAt: it must be after startsAt.")
    if ends_at <= tx.now:
        raise ApiError(400, f"endsAt: it must be in the future; it is {timestamp(tx.now)} now.")
    return starts_at, ends_at


def _instant(field: str, given: str) -> int:
    try:
        return parse_timestamp(given)
    except ValueError:
        raise ApiError(
            400, f"{field}: this is not a timestamp with a zone between 1970 and 9999, such as 2026-01-01T00:00:00Z."
        ) from None


def _units(node: Node, unit_ids: Sequence[str]) -> tuple[int, ...]:
    units = {unit_id: unit for unit, unit_id in enumerate(node.unit_ids)}
    unknown = next((unit_id for unit_id in unit_ids if unit_id not in units), None)
    if unknown is not None:
        raise ApiError(422, f"unitIds: the node {node.id!r} has no GPU unit {unknown!r}.")
    return tuple(units[unit_id] for unit_id in dict.fromkeys(unit_ids))


def _require_organizations(tx: Tx, field: str, organization_ids: Sequence[str]) -> None:
    organization = tables.organizations.c.id
    query = select(organization).where(organization.in_(organization_ids))
    unknown = set(organization_ids) - {PLATFORM_OPERATIONS, *tx.connection.execute(query).scalars()}
    if unknown:
        raise ApiError(422, f"{field}: there is no organization {min(unknown)!r}.")


def _require_unused(tx: Tx, node_id: str, units: Sequence[int]) -> None:
    held = claims.holdings(tx, node_id, units)
    if held:
        raise ApiError(409, f"unitIds: {unit_id(node_id, held[0].unit)} is in use.")


def _require_unreserved(
    others: Iterable[Reservation], node_id: str, units: Sequence[int], starts_at: int, ends_at: int | None
) -> None:
    for other in others:
        over = other.status is ReservationStatus.ENDED
        before = ends_at is not None and ends_at <= other.starts_at
        after = other.ends_at is not None and other.ends_at <= starts_at
        shared = set(units).intersection(other.units)
        if shared and not (over or before or after):
            taken = unit_id(node_id, min(shared))
            raise ApiError(409, f"unitIds: {taken} is reserved by {other.id} for a part of that time.")
