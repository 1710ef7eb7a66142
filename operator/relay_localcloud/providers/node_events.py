"""What happens to workloads when their node falls silent, returns, is held back, or is removed (section 3).

Whether a node reports and whether its owner holds it back are independent: its silence interrupts what it carries also
while it is held, and a hold keeps new workloads off it and touches nothing that it carries.
"""

from collections.abc import Mapping
from typing import Final

from relay_localcloud.capacity import nodes
from relay_localcloud.capacity.vacancies import announce_vacancy
from relay_localcloud.clock.due import DueHandler, DueItem
from relay_localcloud.clusters import clusters, replicas
from relay_localcloud.clusters import moves as cluster_moves
from relay_localcloud.clusters.clusters import Cluster
from relay_localcloud.clusters.states import ReplicaState, ReplicaTrigger
from relay_localcloud.http.errors import ApiError
from relay_localcloud.kernel.instants import seconds
from relay_localcloud.kernel.store import Tx
from relay_localcloud.providers import reservation_moves
from relay_localcloud.serving import moves as serving_moves
from relay_localcloud.serving import node_events as serving
from relay_localcloud.workloads import moves, workloads
from relay_localcloud.workloads.transitions import Trigger
from relay_wire.pods import PodStatus
from relay_wire.provider import NodeStatus

GRACE: Final = "node.grace"
"""A node that is still silent when this falls due is lost."""


def came(tx: Tx, gpu_model_id: str) -> None:
    """A node of this model joined, empty."""
    announce_vacancy(tx, gpu_model_id)


def fell_silent(tx: Tx, node_id: str) -> None:
    """The node stopped reporting: replicas on it are unhealthy at once, pods and VMs have the grace."""
    nodes.set_reporting(tx, node_id, reporting=False)
    tx.schedule(tx.now + seconds(tx.settings.interruption_grace_seconds), GRACE, node_id)
    _to_replicas(tx, node_id, ReplicaTrigger.NODE_SILENT, "Its node does not report.")
    for deployment in serving.to_replicas(tx, node_id, ReplicaTrigger.NODE_SILENT, "Its node does not report."):
        serving_moves.settle(tx, deployment)


def returned(tx: Tx, node_id: str) -> None:
    """The node reports again: everything on it goes on."""
    nodes.set_reporting(tx, node_id, reporting=True)
    tx.cancel(GRACE, node_id)
    for workload in workloads.on_node(tx.connection, node_id):
        start_is_overdue = workload.status is PodStatus.DEPLOYING and workload.due_at is None
        moves.apply(tx, workload, Trigger.STARTED if start_is_overdue else Trigger.NODE_RETURNED)
    _to_replicas(tx, node_id, ReplicaTrigger.NODE_RETURNED, None)
    for deployment in serving.to_replicas(tx, node_id, ReplicaTrigger.NODE_RETURNED, None):
        serving_moves.settle(tx, deployment)
    node = nodes.node_row(tx.connection, node_id)
    assert node is not None
    announce_vacancy(tx, node["gpu_model_id"])


def set_by_owner(tx: Tx, node_id: str, status: NodeStatus) -> None:
    """Do what a node's owner wants of it; ApiError 400 for `offline`, 404 for a removed node, which stays so.

    `online` clears the hold, and whether the node reports decides at once what it is.
    """
    node = nodes.node_row(tx.connection, node_id)
    assert node is not None
    if status == "offline":
        raise ApiError(400, "status: a node is offline when it does not report; set draining, maintenance or removed.")
    if node["removed_at"] is not None:
        if status != "removed":
            raise ApiError(404, f"The node {node_id!r} was removed for good; enrol another one.")
    elif status == "removed":
        was_removed(tx, node_id)
    elif status == "online":
        nodes.set_hold(tx, node_id, None)
        announce_vacancy(tx, node["gpu_model_id"])
    else:
        nodes.set_hold(tx, node_id, status)


def was_removed(tx: Tx, node_id: str) -> None:
    """The node left the platform: pods and VMs end with their volumes, replicas are replaced where there is room."""
    reason = "Its node was removed from the platform."
    for workload in workloads.on_node(tx.connection, node_id):
        moves.apply(tx, workload, Trigger.NODE_REMOVED, reason)
    affected = _to_replicas(tx, node_id, ReplicaTrigger.TERMINATE, reason, settle=False)
    deployments = serving.to_replicas(tx, node_id, ReplicaTrigger.TERMINATE, reason)
    tx.cancel(GRACE, node_id)
    reservation_moves.end_all(tx, node_id)
    nodes.set_removed(tx, node_id)
    for cluster in affected:
        cluster_moves.fill(tx, cluster)
    for deployment in deployments:
        serving_moves.settle(tx, deployment)


def _grace_over(tx: Tx, item: DueItem) -> None:
    reason = "Its node stopped reporting; it runs again when the node returns within 7 days."
    for workload in workloads.on_node(tx.connection, item.subject):
        moves.apply(tx, workload, Trigger.NODE_LOST, reason)
    lost = [r for r in clusters.replicas_on(tx.connection, item.subject) if r.status is ReplicaState.LOST]
    for replica in lost:
        clusters.change_replica(tx, replica.id, replacement_due=True)
    for cluster_id in dict.fromkeys(replica.cluster_id for replica in lost):
        cluster = clusters.find(tx, cluster_id)
        assert cluster is not None, "a replica that is lost belongs to a live cluster"
        cluster_moves.fill(tx, cluster)
    serving.grace_over(tx, item.subject)


def _to_replicas(
    tx: Tx, node_id: str, trigger: ReplicaTrigger, reason: str | None, *, settle: bool = True
) -> list[Cluster]:
    affected: dict[str, Cluster] = {}
    for replica in clusters.replicas_on(tx.connection, node_id):
        cluster = affected.get(replica.cluster_id) or clusters.find(tx, replica.cluster_id)
        assert cluster is not None, "a live replica belongs to a live cluster"
        affected[cluster.id] = cluster
        replicas.apply(tx, cluster, replica, trigger, reason)
    if settle:
        for cluster in affected.values():
            cluster_moves.settle(tx, cluster)
    return list(affected.values())


HANDLERS: Final[Mapping[str, DueHandler]] = {GRACE: _grace_over}
