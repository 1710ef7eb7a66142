"""Spot VMs on lent capacity, which whoever lends it may end at any time (section 2, "Catalog availability")."""

from typing import Final

from relay_localcloud.capacity import claims, nodes
from relay_localcloud.capacity.placement import SPOT
from relay_localcloud.capacity.reservations import RESERVATIONS, ReservationStatus
from relay_localcloud.http.principal import Principal
from relay_localcloud.kernel.store import Tx
from relay_localcloud.workloads import moves, workloads
from relay_localcloud.workloads.transitions import Trigger
from relay_localcloud.workloads.workloads import Workload

_BY_OWNER: Final = "It was terminated by the owner of the spot capacity that it ran on."


def end_guest(tx: Tx, caller: Principal, workload_id: str) -> Workload | None:
    """Terminate a spot VM of somebody else on units that the caller lends; None where it is not the caller's to end.

    That takes the owner of the node, or an organization that manages the reservation. ApiError 403 by role.
    """
    workload = workloads.find(tx, workload_id)
    if workload is None or workload.tier != SPOT or caller.belongs_to(workload.organization_id):
        return None
    for organization_id in _lenders(tx, workload):
        if caller.belongs_to(organization_id):
            caller.admit(organization_id, "VM", workload_id)
            return moves.apply(tx, workload, Trigger.RECLAIMED, _BY_OWNER)
    return None


def _lenders(tx: Tx, workload: Workload) -> list[str]:
    held = claims.units_of(tx.connection, workload.id)
    if held is None:
        return []
    node_id, units = held
    lending = [
        reservation
        for reservation in RESERVATIONS.all(tx, node_id=node_id)
        if reservation.status is ReservationStatus.RELEASED and not set(units).isdisjoint(reservation.units)
    ]
    owner = nodes.get(tx, node_id).owner_id
    managing = [manager for reservation in lending for manager in reservation.managing_org_ids]
    return [*([owner] if owner and lending else ()), *managing]
