"""Carries out what `reservation_states.py` decides: reserves, lends and returns units, and ends spot workloads."""

from collections.abc import Callable, Collection, Mapping
from typing import Final

from relay_localcloud.capacity import claims, nodes, reservations
from relay_localcloud.capacity.reservations import RESERVATIONS, Reservation, ReservationStatus
from relay_localcloud.capacity.vacancies import announce_vacancy
from relay_localcloud.clusters import clusters
from relay_localcloud.clusters import moves as cluster_moves
from relay_localcloud.clusters.clusters import Cluster
from relay_localcloud.http.errors import ApiError
from relay_localcloud.http.outcomes import decided
from relay_localcloud.identity.notices import tell_owners
from relay_localcloud.kernel.due import DueHandler, DueItem
from relay_localcloud.kernel.store import Tx
from relay_localcloud.providers.reservation_states import (
    RESERVATION_TRANSITIONS,
    ReservationEffect,
    ReservationTrigger,
)
from relay_localcloud.replicas.states import ReplicaTrigger
from relay_localcloud.workloads import moves, workloads
from relay_localcloud.workloads.transitions import Trigger

START: Final = "reservation.start"
END: Final = "reservation.end"

_REASONS: Final[Mapping[ReservationTrigger, str]] = {
    ReservationTrigger.RECLAIM: "Its spot capacity was reclaimed by the owner of the reservation.",
    ReservationTrigger.ENDED: "Its spot capacity is gone: the reservation that it was lent from has ended.",
}


def apply(tx: Tx, reservation: Reservation, trigger: ReservationTrigger) -> Reservation:
    """Make the move that the table gives; ApiError 409 if the status does not allow it. Returns the new reservation."""
    move = decided(RESERVATION_TRANSITIONS[reservation.status, trigger])
    if move is None:
        return reservation
    for effect in move.effects:
        _EFFECTS[effect](tx, reservation, trigger)
    return RESERVATIONS.changed(tx, reservation, status=move.to)


def arm(tx: Tx, reservation: Reservation) -> Reservation:
    """Start a reservation, at once or at its time, and schedule its end."""
    if reservation.ends_at is not None:
        tx.schedule(reservation.ends_at, END, reservation.id)
    if reservation.starts_at <= tx.now:
        return apply(tx, reservation, ReservationTrigger.STARTED)
    tx.schedule(reservation.starts_at, START, reservation.id)
    return reservation


def delete(tx: Tx, reservation: Reservation) -> None:
    """End and delete a reservation; ApiError 409 while its own organizations use its units."""
    if reservation.status is ReservationStatus.ACTIVE:
        _require_unused(tx, reservation, ReservationTrigger.ENDED)
    apply(tx, reservation, ReservationTrigger.ENDED)
    tx.cancel(START, reservation.id)
    tx.cancel(END, reservation.id)
    RESERVATIONS.remove(tx, id=reservation.id)


def guests(tx: Tx, reservation: Reservation) -> list[str]:
    """The ids of the VMs and clusters that hold lent units of a reservation."""
    if reservation.status is not ReservationStatus.RELEASED:
        return []
    held = claims.holdings(tx, reservation.node_id, reservation.units)
    return list(dict.fromkeys(claim.workload_id for claim in held))


def end_all(tx: Tx, node_id: str) -> None:
    """End every reservation of a node that leaves the platform."""
    for reservation in RESERVATIONS.all(tx, node_id=node_id):
        apply(tx, reservation, ReservationTrigger.ENDED)


def _require_unused(tx: Tx, reservation: Reservation, _: ReservationTrigger) -> None:
    if claims.holdings(tx, reservation.node_id, reservation.units):
        raise ApiError(409, "Units of the reservation are in use: stop or terminate what runs on them first.")


def _reserve(tx: Tx, reservation: Reservation, _: ReservationTrigger) -> None:
    held = claims.holdings(tx, reservation.node_id, reservation.units)
    reservations.reserve(tx, reservation, [claim.unit for claim in held])


def _lend(tx: Tx, reservation: Reservation, _: ReservationTrigger) -> None:
    reservations.lend(tx, reservation.id, lent=True)
    _announce(tx, reservation)


def _take_back(tx: Tx, reservation: Reservation, trigger: ReservationTrigger) -> None:
    reservations.lend(tx, reservation.id, lent=False)  # first, so that evicted workloads do not come back
    _evict(tx, reservation.node_id, reservation.units, _REASONS[trigger])


def _give_back(tx: Tx, reservation: Reservation, _: ReservationTrigger) -> None:
    reservations.give_back(tx, reservation)
    _announce(tx, reservation)


def _announce(tx: Tx, reservation: Reservation) -> None:
    announce_vacancy(tx, nodes.get(tx, reservation.node_id).gpu_model_id)


def _evict(tx: Tx, node_id: str, units: Collection[int], reason: str) -> None:
    """End the holders of these units: VMs for good; replicas are replaced if there is room."""
    affected: dict[str, Cluster] = {}
    held = claims.holdings(tx, node_id, units)
    for holder_id, workload_id in dict.fromkeys((claim.holder_id, claim.workload_id) for claim in held):
        workload = workloads.find(tx, workload_id)
        if workload is not None:
            moves.apply(tx, workload, Trigger.RECLAIMED, reason)
            continue
        replica = cluster_moves.REPLICAS.get(tx, holder_id)
        if replica is None:
            continue  # it has ended, and what ran of it is leaving
        cluster = clusters.find(tx, workload_id)
        assert cluster is not None, "a live replica belongs to a live cluster"
        affected[cluster.id] = cluster
        cluster_moves.REPLICAS.apply(tx, cluster, replica, ReplicaTrigger.TERMINATE, reason)
    for cluster in affected.values():
        body = f"Replicas of the cluster {cluster.name} ({cluster.id}) are being terminated. {reason}"
        tell_owners(tx, cluster.organization_id, f"{cluster.name} is losing replicas", body)
        cluster_moves.settle(tx, cluster)


_EFFECTS: Final[Mapping[ReservationEffect, Callable[[Tx, Reservation, ReservationTrigger], None]]] = {
    ReservationEffect.RESERVE_UNITS: _reserve,
    ReservationEffect.REQUIRE_UNUSED: _require_unused,
    ReservationEffect.LEND_UNITS: _lend,
    ReservationEffect.TAKE_UNITS_BACK: _take_back,
    ReservationEffect.GIVE_UNITS_BACK: _give_back,
}


def _starts(tx: Tx, item: DueItem) -> None:
    reservation = RESERVATIONS.find(tx, id=item.subject)
    assert reservation is not None, "what is deleted takes its due items along"
    for other in RESERVATIONS.all(tx, node_id=reservation.node_id):
        # The end of another reservation at this very instant may come later in the queue.
        if other.ends_at is not None and other.ends_at <= tx.now:
            apply(tx, other, ReservationTrigger.ENDED)
    apply(tx, reservation, ReservationTrigger.STARTED)


def _ends(tx: Tx, item: DueItem) -> None:
    reservation = RESERVATIONS.find(tx, id=item.subject)
    assert reservation is not None, "as above"
    apply(tx, reservation, ReservationTrigger.ENDED)


HANDLERS: Final[Mapping[str, DueHandler]] = {START: _starts, END: _ends}
