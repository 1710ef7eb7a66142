"""Carries out what happens to whole clusters, and keeps their status in step with their replicas."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from sqlalchemy import select

from relay_localcloud.capacity.saturation import no_room
from relay_localcloud.capacity.vacancies import FILL, waiting
from relay_localcloud.clock.due import DueHandler, DueItem
from relay_localcloud.clusters import clusters, replicas
from relay_localcloud.clusters.clusters import Cluster, Replica
from relay_localcloud.clusters.states import (
    CLUSTER_TRANSITIONS,
    SERVING,
    Census,
    ClusterEffect,
    ClusterMove,
    ClusterTrigger,
    ReplicaState,
    ReplicaTrigger,
    degradation,
    derived_status,
)
from relay_localcloud.http.errors import ApiError
from relay_localcloud.kernel.instants import seconds
from relay_localcloud.kernel.outcomes import Refusal, Stay
from relay_localcloud.kernel.store import Tx
from relay_localcloud.money import billing
from relay_wire.clusters import ClusterStatus
from relay_wire.events import EventType

STOP: Final = "cluster.stop"
GRACE: Final = "cluster.grace"
"""A cluster none of whose replicas is healthy fails when this falls due."""

_EVENTS: Final[Mapping[ClusterStatus, EventType]] = {
    ClusterStatus.RUNNING: EventType.CLUSTER_RUNNING,
    ClusterStatus.DEGRADED: EventType.CLUSTER_DEGRADED,
    ClusterStatus.FAILED: EventType.CLUSTER_FAILED,
}


def apply(tx: Tx, cluster: Cluster, trigger: ClusterTrigger, reason: str | None = None) -> Cluster:
    """Do what the table says; ApiError 409 where the status does not allow it. Returns the cluster as it is after."""
    outcome = CLUSTER_TRANSITIONS[cluster.status, trigger]
    match outcome:
        case Stay():
            return cluster
        case Refusal(message, code):
            raise ApiError(409, message, code)
        case ClusterMove(to=None, effects=effects):
            for effect in effects:
                _EFFECTS[effect](tx, cluster)
            return settle(tx, cluster)
        case ClusterMove(to=to, effects=effects):
            assert to is not None
            return _carry_out(tx, cluster, to, effects, reason)


def scale(tx: Tx, cluster: Cluster, replica_count: int) -> Cluster:
    """Change how many replicas there are; refused where none of the added ones finds room."""
    outcome = CLUSTER_TRANSITIONS[cluster.status, ClusterTrigger.SCALE]
    if isinstance(outcome, Refusal):
        raise ApiError(409, outcome.message, outcome.code)
    members = clusters.replicas_of(tx.connection, cluster.id)
    wanted = replace(cluster, replica_count=replica_count)
    if replica_count > cluster.replica_count:
        billing.require_funds(tx, cluster.organization_id)
        if not replicas.place(tx, wanted, replica_count - len(members)) and wanted.demand is not None:
            raise no_room(tx, wanted.demand)
    for replica in _surplus(members, len(members) - replica_count):
        replicas.apply(tx, cluster, replica, ReplicaTrigger.TERMINATE, "The cluster was scaled down.")
    clusters.change_cluster(tx, cluster.id, replica_count=replica_count)
    return settle(tx, wanted)


def settle(tx: Tx, cluster: Cluster) -> Cluster:
    """Bring a cluster's status, reason, waiting and grace in step with its replicas, and tell of what changed."""
    if cluster.status not in SERVING:
        return cluster
    members = clusters.replicas_of(tx.connection, cluster.id)
    census = Census.of(cluster.replica_count, members)
    _set_waiting(tx, cluster, census.missing > 0 or any(replica.replacement_due for replica in members))
    status = derived_status(cluster.status, census)
    after = replace(
        cluster,
        status=status,
        status_reason=degradation(census, cluster.replica_needs) if status is ClusterStatus.DEGRADED else None,
        active_replicas=len(census.healthy),
        hopeless_since=_hopeless_since(tx, cluster, census),
    )
    if after == cluster:
        return cluster
    clusters.change_cluster(
        tx,
        cluster.id,
        status=status.value,
        status_reason=after.status_reason,
        active_replicas=after.active_replicas,
        hopeless_since=after.hopeless_since,
    )
    if status is not cluster.status:
        _tell(tx, after)
    return replace(after, updated_at=tx.now)


def _carry_out(
    tx: Tx, cluster: Cluster, to: ClusterStatus, effects: tuple[ClusterEffect, ...], reason: str | None
) -> Cluster:
    after = replace(
        cluster,
        status=to,
        status_reason=reason or (cluster.status_reason if to is ClusterStatus.STOPPED else None),
        active_replicas=0,
        hopeless_since=None,
        terminated_at=tx.now if to is ClusterStatus.TERMINATED else None,
        updated_at=tx.now,
    )
    clusters.change_cluster(
        tx,
        cluster.id,
        status=to.value,
        status_reason=after.status_reason,
        active_replicas=0,
        hopeless_since=None,
        terminated_at=after.terminated_at,
    )
    replicas.wait_no_longer(tx, cluster)
    tx.cancel(GRACE, cluster.id)
    for effect in effects:
        _EFFECTS[effect](tx, after)
    return settle(tx, after)


def _set_waiting(tx: Tx, cluster: Cluster, waits: bool) -> None:
    if waits:
        replicas.wait_for_room(tx, cluster)
    else:
        replicas.wait_no_longer(tx, cluster)


def _hopeless_since(tx: Tx, cluster: Cluster, census: Census) -> int | None:
    if census.is_hopeless and cluster.hopeless_since is None:
        tx.schedule(tx.now + seconds(tx.settings.interruption_grace_seconds), GRACE, cluster.id)
        return tx.now
    if not census.is_hopeless and cluster.hopeless_since is not None:
        tx.cancel(GRACE, cluster.id)
        return None
    return cluster.hopeless_since


def _surplus(members: list[Replica], count: int) -> list[Replica]:
    """The replicas that a smaller cluster does without: what does not serve first, then the youngest."""
    return sorted(members, key=lambda replica: (replica.status is ReplicaState.HEALTHY, -replica.sequence))[
        : max(0, count)
    ]


def _tell(tx: Tx, cluster: Cluster) -> None:
    event = _EVENTS.get(cluster.status)
    if event is not None:
        data = {**cluster.event_data, "status": cluster.status.value, "statusReason": cluster.status_reason}
        tx.emit(cluster.organization_id, event.value, data)


def _to_all(trigger: ReplicaTrigger, reason: str | None = None) -> Callable[[Tx, Cluster], None]:
    def to_all(tx: Tx, cluster: Cluster) -> None:
        for replica in clusters.replicas_of(tx.connection, cluster.id):
            replicas.apply(tx, cluster, replica, trigger, reason)

    return to_all


def _place_replicas(tx: Tx, cluster: Cluster) -> None:
    billing.require_funds(tx, cluster.organization_id)
    if not replicas.place(tx, cluster, cluster.replica_count) and cluster.demand is not None:
        raise no_room(tx, cluster.demand)


def _set_stop_timer(tx: Tx, cluster: Cluster) -> None:
    tx.schedule(tx.now + seconds(tx.settings.stop_seconds), STOP, cluster.id)


_EFFECTS: Final[Mapping[ClusterEffect, Callable[[Tx, Cluster], None]]] = {
    ClusterEffect.PLACE_REPLICAS: _place_replicas,
    ClusterEffect.RESTART_REPLICAS: _to_all(ReplicaTrigger.RESTART),
    ClusterEffect.STOP_REPLICAS: _to_all(ReplicaTrigger.STOP),
    ClusterEffect.TERMINATE_REPLICAS: _to_all(ReplicaTrigger.TERMINATE),
    ClusterEffect.SET_STOP_TIMER: _set_stop_timer,
    ClusterEffect.TELL_FAILED: _tell,
}


def balance_ran_out(tx: Tx, organization_id: str, reason: str) -> None:
    """Stop every serving cluster of an organization."""
    for cluster in clusters.live_of(tx.connection, organization_id):
        apply(tx, cluster, ClusterTrigger.BALANCE_RAN_OUT, reason)


def _replica_started(tx: Tx, item: DueItem) -> None:
    replica = clusters.find_replica(tx, item.subject)
    cluster = clusters.find(tx, replica.cluster_id) if replica is not None else None
    if replica is not None and cluster is not None:
        replicas.apply(tx, cluster, replica, ReplicaTrigger.STARTED)
        settle(tx, cluster)


def _stopped(tx: Tx, item: DueItem) -> None:
    cluster = clusters.find(tx, item.subject)
    if cluster is not None:
        apply(tx, cluster, ClusterTrigger.STOPPED)


def _grace_over(tx: Tx, item: DueItem) -> None:
    cluster = clusters.find(tx, item.subject)
    if cluster is not None and cluster.status in SERVING:
        reason = f"No replica was healthy for {tx.settings.interruption_grace_seconds:g} seconds."
        apply(tx, cluster, ClusterTrigger.FAILED, f"{reason} {cluster.status_reason or ''}".strip())


def _room_was_freed(tx: Tx, item: DueItem) -> None:
    query = select(waiting.c.cluster_id).where(waiting.c.gpu_model_id == item.subject).order_by(waiting.c.sequence)
    for cluster_id in tx.connection.execute(query).scalars().all():
        cluster = clusters.find(tx, cluster_id)
        assert cluster is not None, "a cluster that waits for room is live"
        fill(tx, cluster)


def fill(tx: Tx, cluster: Cluster) -> Cluster:
    """Give a serving cluster what it lacks, and replace what was lost for too long, as far as there is room."""
    if cluster.status not in SERVING:
        return cluster
    replicas.replace_overdue(tx, cluster)
    members = clusters.replicas_of(tx.connection, cluster.id)
    replicas.place(tx, cluster, cluster.replica_count - len(members))
    return settle(tx, cluster)


HANDLERS: Final[Mapping[str, DueHandler]] = {
    replicas.START: _replica_started,
    STOP: _stopped,
    GRACE: _grace_over,
    FILL: _room_was_freed,
}
