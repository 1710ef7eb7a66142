"""Spot workloads on capacity that is lent: its owner may end them at any time (section 2, "Catalog availability")."""

from collections.abc import Collection

from relay_localcloud.capacity import claims
from relay_localcloud.capacity.reservations import Reservation, ReservationStatus
from relay_localcloud.clusters import clusters
from relay_localcloud.clusters.clusters import Cluster
from relay_localcloud.clusters.moves import REPLICAS, settle
from relay_localcloud.identity.notices import tell_owners
from relay_localcloud.kernel.store import Tx
from relay_localcloud.replicas.states import ReplicaTrigger
from relay_localcloud.workloads import moves, workloads
from relay_localcloud.workloads.transitions import Trigger


def guests(tx: Tx, reservation: Reservation) -> list[str]:
    """The ids of the VMs and clusters that have lent units of a reservation."""
    if reservation.status is not ReservationStatus.RELEASED:
        return []
    held = claims.holdings(tx.connection, reservation.node_id, reservation.units)
    return list(dict.fromkeys(holding.workload_id for holding in held.values()))


def evict(tx: Tx, node_id: str, units: Collection[int], reason: str) -> None:
    """End whatever holds these units: VMs for good, replicas to be replaced where there is room."""
    affected: dict[str, Cluster] = {}
    for holding in dict.fromkeys(claims.holdings(tx.connection, node_id, units).values()):
        workload = workloads.find(tx, holding.workload_id)
        if workload is not None:
            moves.apply(tx, workload, Trigger.RECLAIMED, reason)
            continue
        replica = REPLICAS.get(tx.connection, holding.holder_id)
        cluster = clusters.find(tx, holding.workload_id)
        assert replica is not None, "units are held by VMs, pods and replicas"
        assert cluster is not None, "a live replica belongs to a live cluster"
        affected[cluster.id] = cluster
        REPLICAS.apply(tx, cluster, replica, ReplicaTrigger.TERMINATE, reason)
    for cluster in affected.values():
        _send_notice(tx, cluster, reason)
        settle(tx, cluster)


def _send_notice(tx: Tx, cluster: Cluster, reason: str) -> None:
    subject = f"{cluster.name} is losing replicas"
    body = f"Replicas of the cluster {cluster.name} ({cluster.id}) are being terminated. {reason}"
    tell_owners(tx, cluster.organization_id, subject, body)
