"""Carries out what happens to single replicas: placed, started, checked, lost, replaced, ended."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from sqlalchemy import delete, insert

from relay_localcloud.capacity import claims
from relay_localcloud.capacity.vacancies import announce_vacancy, waiting
from relay_localcloud.clusters import clusters
from relay_localcloud.clusters.clusters import Cluster, Replica
from relay_localcloud.clusters.states import REPLICA_TRANSITIONS, ReplicaEffect, ReplicaState, ReplicaTrigger
from relay_localcloud.kernel.instants import seconds
from relay_localcloud.kernel.store import Tx
from relay_localcloud.money import billing
from relay_wire.events import EventType

START: Final = "replica.start"
"""The due item of a replica that starts."""


def apply(tx: Tx, cluster: Cluster, replica: Replica, trigger: ReplicaTrigger, reason: str | None = None) -> None:
    """Do what the table says to one replica; the cluster's status is left to `cluster_moves.settle`."""
    move = REPLICA_TRANSITIONS.get((replica.status, trigger))
    if move is None:
        return
    after = replace(replica, status=move.to)
    for effect in move.effects:
        _EFFECTS[effect](tx, cluster, after, reason)
    healthy = move.to is ReplicaState.HEALTHY
    failing = move.to in {ReplicaState.UNHEALTHY, ReplicaState.LOST}
    clusters.change_replica(
        tx,
        replica.id,
        status=move.to.value,
        replacement_due=False,
        consecutive_failures=replica.consecutive_failures + 1 if failing else 0,
        checked_at=tx.now if healthy or failing else replica.checked_at,
        started_at=tx.now if healthy and replica.started_at is None else replica.started_at,
        terminated_at=tx.now if move.to is ReplicaState.TERMINATED else None,
    )


def place(tx: Tx, cluster: Cluster, count: int) -> int:
    """Place up to `count` more replicas, and return how many found room."""
    for placed in range(count):
        if not place_one(tx, cluster):
            return placed
    return count


def place_one(tx: Tx, cluster: Cluster) -> bool:
    """Place one more replica and let it start; False where no node has room."""
    demand = cluster.demand
    room = None
    if demand is not None:
        room = claims.find_room(tx.connection, demand)
        if room is None:
            return False
    replica_id = tx.new_id("rep")
    if room is not None:
        claims.claim(tx, room, cluster.gpus_per_replica, replica_id, cluster.id)
    columns = {
        "id": replica_id,
        "cluster_id": cluster.id,
        "node_id": room.id if room else None,
        "status": ReplicaState.PROVISIONING.value,
        "created_at": tx.now,
    }
    replica = clusters.insert_replica(tx, columns)
    _set_start_timer(tx, cluster, replica, None)
    return True


def replace_overdue(tx: Tx, cluster: Cluster) -> None:
    """Replace replicas that were lost for longer than the grace, as far as there is room elsewhere."""
    for replica in clusters.replicas_of(tx.connection, cluster.id):
        if not replica.replacement_due:
            continue
        if not place_one(tx, cluster):
            return
        apply(tx, cluster, replica, ReplicaTrigger.TERMINATE, "Replaced: its node does not report.")


def wait_for_room(tx: Tx, cluster: Cluster) -> None:
    """Serve the cluster when GPUs of its model become free."""
    if cluster.gpu_model_id is None:
        return
    entry = {"sequence": cluster.sequence, "cluster_id": cluster.id, "gpu_model_id": cluster.gpu_model_id}
    tx.connection.execute(insert(waiting).prefix_with("OR IGNORE"), entry)


def wait_no_longer(tx: Tx, cluster: Cluster) -> None:
    """Leave the queue for free GPUs."""
    tx.connection.execute(delete(waiting).where(waiting.c.cluster_id == cluster.id))


Act = Callable[[Tx, Cluster, Replica, str | None], None]


def _start_billing(tx: Tx, cluster: Cluster, replica: Replica, _: str | None) -> None:
    billing.start_billing(tx, cluster.billed(replica))


def _stop_billing(tx: Tx, cluster: Cluster, replica: Replica, _: str | None) -> None:
    billing.stop_billing(tx, cluster.organization_id, replica.id)


def _release_gpus(tx: Tx, cluster: Cluster, replica: Replica, _: str | None) -> None:
    tx.cancel(START, replica.id)
    claims.release(tx, replica.id)
    if cluster.gpu_model_id is not None:
        announce_vacancy(tx, cluster.gpu_model_id)


def _set_start_timer(tx: Tx, _: Cluster, replica: Replica, __: str | None) -> None:
    due_at = tx.now + seconds(tx.settings.placement_seconds) + seconds(tx.settings.start_seconds)
    tx.schedule(due_at, START, replica.id)


def _tell(event: EventType) -> Act:
    def tell(tx: Tx, cluster: Cluster, replica: Replica, reason: str | None) -> None:
        data = {**cluster.event_data, "replicaId": replica.id, "status": shown_status(replica), "reason": reason}
        tx.emit(cluster.organization_id, event.value, data)

    return tell


_EFFECTS: Final[Mapping[ReplicaEffect, Act]] = {
    ReplicaEffect.START_BILLING: _start_billing,
    ReplicaEffect.STOP_BILLING: _stop_billing,
    ReplicaEffect.RELEASE_GPUS: _release_gpus,
    ReplicaEffect.SET_START_TIMER: _set_start_timer,
    ReplicaEffect.TELL_HEALTHY: _tell(EventType.REPLICA_HEALTHY),
    ReplicaEffect.TELL_UNHEALTHY: _tell(EventType.REPLICA_UNHEALTHY),
    ReplicaEffect.TELL_TERMINATED: _tell(EventType.REPLICA_TERMINATED),
}


def shown_status(replica: Replica) -> str:
    """The status word: a replica on a silent node is unhealthy."""
    shown = ReplicaState.UNHEALTHY if replica.status is ReplicaState.LOST else replica.status
    return shown.value
