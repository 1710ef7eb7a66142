"""What happens to workloads when their node falls silent, returns, is held, or is removed (section 3).

Whether a node reports and whether its owner holds it are independent: a silent node interrupts its workloads even if
it is held, and a hold keeps new workloads off the node and does not affect those that it has.
"""

from collections.abc import Callable, Mapping
from typing import Final

from relay_localcloud.capacity import claims, nodes, reservations
from relay_localcloud.capacity.vacancies import announce_vacancy
from relay_localcloud.clusters import moves as cluster_moves
from relay_localcloud.http.errors import ApiError
from relay_localcloud.kernel.due import DueHandler, DueItem
from relay_localcloud.kernel.instants import seconds
from relay_localcloud.kernel.store import Tx
from relay_localcloud.providers import reservation_moves
from relay_localcloud.replicas.states import ReplicaTrigger
from relay_localcloud.serving import moves as serving_moves
from relay_localcloud.workloads import moves, workloads
from relay_localcloud.workloads.transitions import HOLDS_GPUS, Trigger
from relay_localcloud.workloads.workloads import WORKLOADS, Workload
from relay_wire.pods import PodStatus
from relay_wire.provider import NodeStatus

GRACE: Final = "node.grace"
"""A node that is still silent when this falls due is lost."""


def came(tx: Tx, gpu_model_id: str) -> None:
    """An empty node of this model joined."""
    announce_vacancy(tx, gpu_model_id)


def offers(tx: Tx, node_id: str, gpu_count: int, ram_gb: int) -> None:
    """The node has so many GPUs and so much memory for the cloud now; its workloads go on."""
    if claims.offer(tx, node_id, gpu_count, ram_gb):
        announce_vacancy(tx, nodes.get(tx, node_id).gpu_model_id)


def has_model(tx: Tx, node_id: str, gpu_model_id: str) -> bool:
    """Make an unused node one of this model; returns whether it is one now. Call `offers` afterwards.

    What is on a node was sold with its model, so that a node with a volume, claim or reservation keeps that.
    """
    if nodes.get(tx, node_id).gpu_model_id == gpu_model_id:
        return True
    used = workloads.on_node(tx, node_id), claims.CLAIMS.all(tx, node_id=node_id), reservations.on_node(tx, node_id)
    if any(used):
        return False
    nodes.NODES.change(tx, node_id, gpu_model_id=gpu_model_id, gpu_count=0, free_count=0, ram_gb=0)
    return True


def fell_silent(tx: Tx, node_id: str, since: int | None = None) -> None:
    """The node stopped reporting: its replicas are unhealthy at once, its pods and VMs after the grace period.

    It did so at `since`, if a runtime knows that and it is not in the future, or now.
    """
    began = tx.now if since is None else min(since, tx.now)
    over = began + seconds(tx.settings.interruption_grace_seconds)
    nodes.set_standing(tx, node_id, reporting=False)
    if over >= tx.now:
        tx.schedule(over, GRACE, node_id)  # before that of clusters, which are to find their replicas replaced
    _to_replicas(tx, node_id, ReplicaTrigger.NODE_SILENT, "Its node does not report.", began)()
    if over < tx.now:
        _lost(tx, node_id, over)


def returned(tx: Tx, node_id: str) -> None:
    """The node reports again: its workloads go on, or wait until the runtime reports that they run."""
    nodes.set_standing(tx, node_id, reporting=True)
    tx.cancel(GRACE, node_id)
    for workload in _at_work(tx, node_id):
        moves.apply(tx, workload, _on_return(tx, workload))
    seen = ReplicaTrigger.NODE_SEEN_AGAIN if tx.runtime.reports_by_itself else ReplicaTrigger.NODE_RETURNED
    _to_replicas(tx, node_id, seen, None)()
    announce_vacancy(tx, nodes.get(tx, node_id).gpu_model_id)


def _at_work(tx: Tx, node_id: str) -> list[Workload]:
    """The workloads on a node to which its silence means something: there may be thousands that are stopped."""
    return WORKLOADS.all(tx, _HOLDS_GPUS, node_id=node_id, terminated_at=None)


def _on_return(tx: Tx, workload: Workload) -> Trigger:
    if tx.runtime.reports_by_itself:
        return Trigger.NODE_SEEN_AGAIN
    started_unheard = workload.status is PodStatus.DEPLOYING and workload.due_at is None
    return Trigger.STARTED if started_unheard else Trigger.NODE_RETURNED


def set_by_owner(tx: Tx, node_id: str, status: NodeStatus) -> None:
    """Apply a status that the owner sets; ApiError 400 for `offline`, 404 for a removed node, which stays removed.

    `online` clears the owner's hold; the status then depends on whether the node is cordoned, and reports.
    """
    node = nodes.get(tx, node_id)
    if status == "offline":
        raise ApiError(400, "status: a node is offline when it does not report; set draining, maintenance or removed.")
    if node.removed_at is not None:
        if status != "removed":
            raise ApiError(404, f"The node {node_id!r} was removed for good; enrol another one.")
    elif status == "removed":
        was_removed(tx, node_id)
    elif status == "online":
        if node.hold != nodes.CORDONED:
            nodes.set_standing(tx, node_id, hold=None)
            announce_vacancy(tx, node.gpu_model_id)
    else:
        nodes.set_standing(tx, node_id, hold=status)
    tx.runtime.holds_changed()


def cordoned(tx: Tx, node_id: str, *, is_cordoned: bool) -> bool:
    """Hold the node as long as its cluster's administrators close it; a hold of its owner stays.

    Returns whether the hold is new.
    """
    node = nodes.get(tx, node_id)
    if is_cordoned and node.hold is None:
        nodes.set_standing(tx, node_id, hold=nodes.CORDONED)
        return True
    if not is_cordoned and node.hold == nodes.CORDONED:
        nodes.set_standing(tx, node_id, hold=None)
        announce_vacancy(tx, node.gpu_model_id)
    return False


def was_removed(tx: Tx, node_id: str) -> None:
    """The node left the platform: pods and VMs end with their volumes, replicas are replaced if there is room."""
    reason = "Its node was removed from the platform."
    for workload in workloads.on_node(tx, node_id):
        moves.apply(tx, workload, Trigger.NODE_REMOVED, reason)
    replace = _to_replicas(tx, node_id, ReplicaTrigger.TERMINATE, reason)
    tx.cancel(GRACE, node_id)
    reservation_moves.end_all(tx, node_id)
    nodes.set_removed(tx, node_id)
    replace()


def _grace_over(tx: Tx, item: DueItem) -> None:
    _lost(tx, item.subject, tx.now)


def _lost(tx: Tx, node_id: str, at: int) -> None:
    reason = "Its node stopped reporting; it runs again when the node returns within 7 days."
    for workload in _at_work(tx, node_id):
        moves.apply(tx, workload, Trigger.NODE_LOST, reason, at)
    for kind in _KINDS:
        kind.grace_over(tx, node_id)


def _to_replicas(
    tx: Tx, node_id: str, trigger: ReplicaTrigger, reason: str | None, at: int | None = None
) -> Callable[[], None]:
    """Apply a trigger to every replica on a node; call the result to settle their clusters and deployments."""
    affected = [(kind, kind.to_those_on(tx, node_id, trigger, reason, at)) for kind in _KINDS]

    def settle() -> None:
        for kind, group_ids in affected:
            kind.settle_all(tx, group_ids)

    return settle


_HOLDS_GPUS: Final = WORKLOADS.columns["status"].in_(sorted(status.value for status in HOLDS_GPUS))
_KINDS: Final = (cluster_moves.REPLICAS, serving_moves.REPLICAS)
HANDLERS: Final[Mapping[str, DueHandler]] = {GRACE: _grace_over}
