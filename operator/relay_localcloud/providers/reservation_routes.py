"""Reservations of a provider node's GPU units (section 2, "Node reservation"); paths and answers are assumed.

The owner of the node makes and deletes them; it and the managing organizations read, release and reclaim them.
"""

from relay_localcloud.capacity import nodes, reservations
from relay_localcloud.capacity.reservations import Reservation
from relay_localcloud.http.bodies import Body
from relay_localcloud.http.errors import not_found
from relay_localcloud.http.openapi import ASSUMED
from relay_localcloud.http.principal import MemberReader, OrganizationId, OrganizationWriter, ResourceId
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel.instants import optional_timestamp, timestamp
from relay_localcloud.kernel.store import Tx
from relay_localcloud.providers import applications, reservation_admission, reservation_moves, spot
from relay_localcloud.providers.node_routes import NodeId
from relay_localcloud.providers.reservation_states import ReservationTrigger
from relay_wire.reservations import Reservation as ReservationAnswer
from relay_wire.reservations import ReservationCreate, ReservationList

router = Router("Providers")

PATH = "/v1/orgs/{orgId}/provider/nodes/{nodeId}/reservations"


@router.post(PATH, response_model=ReservationAnswer, summary="Reserve GPU units", openapi_extra=ASSUMED)
def create_reservation(
    _: OrganizationWriter, organization_id: OrganizationId, node_id: NodeId, body: Body[ReservationCreate], tx: Tx
) -> dict[str, object]:
    """409 for units that are in use, or reserved for a part of that time."""
    reservation = reservation_admission.create(tx, applications.owned_node(tx, organization_id, node_id), body)
    return _shown(tx, reservation)


@router.get(PATH, response_model=ReservationList, summary="The reservations of a node", openapi_extra=ASSUMED)
def list_reservations(_: MemberReader, organization_id: OrganizationId, node_id: NodeId, tx: Tx) -> dict[str, object]:
    """Answers `{items}`, oldest first, those that ended included; a managing organization sees what it manages."""
    items = [_shown(tx, reservation) for reservation in _visible(tx, organization_id, node_id)]
    return {"items": items}


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
    applications.owned_node(tx, organization_id, node_id)
    reservation_moves.delete(tx, _one(tx, organization_id, node_id, reservation_id))


@router.post(
    f"{PATH}/{{id}}/release",
    response_model=ReservationAnswer,
    summary="Lend a reservation's units to spot",
    openapi_extra=ASSUMED,
)
def release_reservation(
    _: OrganizationWriter,
    organization_id: OrganizationId,
    node_id: NodeId,
    reservation_id: ResourceId,
    tx: Tx,
) -> dict[str, object]:
    """409 while units are in use, before it begins and after its end; a second time changes nothing."""
    return _shown(
        tx, reservation_moves.apply(tx, _one(tx, organization_id, node_id, reservation_id), ReservationTrigger.RELEASE)
    )


@router.post(
    f"{PATH}/{{id}}/reclaim",
    response_model=ReservationAnswer,
    summary="Take a reservation's units back from spot",
    openapi_extra=ASSUMED,
)
def reclaim_reservation(
    _: OrganizationWriter,
    organization_id: OrganizationId,
    node_id: NodeId,
    reservation_id: ResourceId,
    tx: Tx,
) -> dict[str, object]:
    """Terminates the spot workloads on them; 409 before it begins and after its end; a second time changes nothing."""
    return _shown(
        tx, reservation_moves.apply(tx, _one(tx, organization_id, node_id, reservation_id), ReservationTrigger.RECLAIM)
    )


def _act(tx: Tx, place: tuple[str, str, str], trigger: ReservationTrigger) -> dict[str, object]:
    return _shown(tx, reservation_moves.apply(tx, _one(tx, *place), trigger))


def _visible(tx: Tx, organization_id: str, node_id: str) -> list[Reservation]:
    every = reservations.of_node(tx.connection, node_id)
    if _owns(tx, organization_id, node_id):
        return every
    managed = [reservation for reservation in every if organization_id in reservation.managing_org_ids]
    if not managed:
        raise not_found("node", node_id)
    return managed


def _one(tx: Tx, organization_id: str, node_id: str, reservation_id: str) -> Reservation:
    found = reservations.find(tx.connection, reservation_id)
    if found is None or found.node_id != node_id:
        raise not_found("reservation", reservation_id)
    if organization_id not in found.managing_org_ids and not _owns(tx, organization_id, node_id):
        raise not_found("reservation", reservation_id)
    return found


def _owns(tx: Tx, organization_id: str, node_id: str) -> bool:
    node = nodes.node_row(tx.connection, node_id)
    return node is not None and nodes.owner_of(node) == organization_id


def _shown(tx: Tx, reservation: Reservation) -> dict[str, object]:
    return {
        "id": reservation.id,
        "nodeId": reservation.node_id,
        "unitIds": [nodes.unit_id(reservation.node_id, unit) for unit in reservation.units],
        "allowedOrgIds": reservation.allowed_org_ids,
        "managingOrgIds": reservation.managing_org_ids,
        "startsAt": timestamp(reservation.starts_at),
        "endsAt": optional_timestamp(reservation.ends_at),
        "status": reservation.status.value,
        "contractRef": reservation.contract_ref,
        "reason": reservation.reason,
        "createdAt": timestamp(reservation.created_at),
        "spotWorkloadIds": spot.guests(tx, reservation),
    }
