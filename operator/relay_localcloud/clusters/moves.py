"""Carries out what happens to whole clusters, and updates their status to match their replicas."""

from collections.abc import Callable, Mapping
from typing import Final

from relay_localcloud.capacity import vacancies
from relay_localcloud.clusters import clusters
from relay_localcloud.clusters.clusters import CLUSTERS, Cluster
from relay_localcloud.clusters.states import (
    CLUSTER_TRANSITIONS,
    SERVING,
    ClusterEffect,
    ClusterTrigger,
    derived_status,
)
from relay_localcloud.http.outcomes import decided
from relay_localcloud.kernel.due import DueHandler, DueItem
from relay_localcloud.kernel.instants import seconds
from relay_localcloud.kernel.store import Tx
from relay_localcloud.money import billing
from relay_localcloud.money.alarms import AT_ONCE, FUNDED_AGAIN, RAN_OUT
from relay_localcloud.quotas import quotas
from relay_localcloud.replicas.census import Census, degradation
from relay_localcloud.replicas.engine import Replicas
from relay_localcloud.replicas.states import ReplicaTrigger
from relay_localcloud.runtimes.runtime import Facts, Wanted
from relay_wire.clusters import ClusterStatus
from relay_wire.events import EventType

STOP: Final = "cluster.stop"
FACTS: Final = Facts(stopped=STOP)
GRACE: Final = "cluster.grace"
"""The kind of the due item at which a cluster that is still without hope of a healthy replica fails."""

_EVENTS: Final[Mapping[ClusterStatus, EventType]] = {
    ClusterStatus.RUNNING: EventType.CLUSTER_RUNNING,
    ClusterStatus.DEGRADED: EventType.CLUSTER_DEGRADED,
    ClusterStatus.FAILED: EventType.CLUSTER_FAILED,
}


def apply(tx: Tx, cluster: Cluster, trigger: ClusterTrigger, reason: str | None = None) -> Cluster:
    """Do what the table says, and return the cluster as it is then; ApiError 409 if its status does not allow it."""
    move = decided(CLUSTER_TRANSITIONS[cluster.status, trigger])
    if move is None:
        return cluster
    if move.to in SERVING and cluster.status not in SERVING:
        require_quotas(tx, cluster, had=0, wanted=cluster.replica_count)
    after = cluster if move.to is None else _moved(tx, cluster, move.to, reason)
    for effect in move.effects:
        _EFFECTS[effect](tx, after)
    return settle(tx, after)


def scale(tx: Tx, cluster: Cluster, replica_count: int) -> Cluster:
    """Change the number of replicas; refused with a capacity code if none of the additional ones finds room."""
    decided(CLUSTER_TRANSITIONS[cluster.status, ClusterTrigger.SCALE])
    had = REPLICAS.staying(tx, cluster)
    if replica_count > cluster.replica_count:
        billing.require_funds(tx, cluster.organization_id)
        require_quotas(tx, cluster, had=cluster.replica_count, wanted=replica_count)
    after = settle(tx, CLUSTERS.changed(tx, cluster, replica_count=replica_count, updated_at=tx.now))
    if replica_count > cluster.replica_count:
        REPLICAS.require_more(tx, after, had)
    return after


def require_quotas(tx: Tx, cluster: Cluster, *, had: int, wanted: int) -> None:
    """Refuse with 403 more replicas than the organization's quotas allow."""
    more_bytes = cluster.request_bytes(wanted) - cluster.request_bytes(had)
    require_replicas(tx, cluster.organization_id, wanted - had, cluster.gpus_per_replica, more_bytes)


def require_replicas(tx: Tx, organization_id: str, count: int, gpus_each: int, request_bytes: int) -> None:
    """Refuse with 403 more replicas than an organization's quotas allow."""
    more = {quotas.REPLICAS: count, quotas.GPUS: count * gpus_each, quotas.REQUEST_BYTES: request_bytes}
    quotas.require(tx, organization_id, {**more, quotas.USAGE_RECORDS: count})


def settle(tx: Tx, cluster: Cluster) -> Cluster:
    """Fill a serving cluster, update its status, reason and grace timer to match, and emit a change of status."""
    if cluster.status not in SERVING:
        return cluster
    census = Census.of(cluster.replica_count, REPLICAS.fill(tx, cluster))
    status = derived_status(cluster.status, census)
    after = CLUSTERS.updated(
        tx,
        cluster,
        status=status,
        status_reason=degradation(census, cluster.replica_needs) if status is ClusterStatus.DEGRADED else census.said,
        active_replicas=len(census.healthy),
        hopeless_since=_hopeless_since(tx, cluster, census),
    )
    if status is not cluster.status:
        _tell(tx, after)
    return after


def _moved(tx: Tx, cluster: Cluster, to: ClusterStatus, reason: str | None) -> Cluster:
    REPLICAS.wait_no_longer(tx, cluster)
    tx.cancel(GRACE, cluster.id)
    if to is ClusterStatus.TERMINATED:
        clusters.ENDED.one_ended(tx)
    return CLUSTERS.updated(
        tx,
        cluster,
        status=to,
        status_reason=reason or (cluster.status_reason if to is ClusterStatus.STOPPED else None),
        active_replicas=0,
        hopeless_since=None,
        terminated_at=tx.now if to is ClusterStatus.TERMINATED else None,
    )


def _hopeless_since(tx: Tx, cluster: Cluster, census: Census) -> int | None:
    if census.is_hopeless and cluster.hopeless_since is None:
        tx.schedule(tx.now + seconds(tx.settings.interruption_grace_seconds), GRACE, cluster.id)
        return tx.now
    if not census.is_hopeless and cluster.hopeless_since is not None:
        tx.cancel(GRACE, cluster.id)
        return None
    return cluster.hopeless_since


def _tell(tx: Tx, cluster: Cluster) -> None:
    event = _EVENTS.get(cluster.status)
    if event is not None:
        named = {"clusterId": cluster.id, "organizationId": cluster.organization_id, "name": cluster.name}
        data = {**named, "status": cluster.status.value, "statusReason": cluster.status_reason}
        tx.emit(cluster.organization_id, event.value, data)


def _to_all(trigger: ReplicaTrigger) -> Callable[[Tx, Cluster], None]:
    return lambda tx, cluster: REPLICAS.to_all(tx, cluster, trigger)


def _place_replicas(tx: Tx, cluster: Cluster) -> None:
    billing.require_funds(tx, cluster.organization_id)
    REPLICAS.fill(tx, cluster)
    REPLICAS.require_more(tx, cluster, had=0)


_EFFECTS: Final[Mapping[ClusterEffect, Callable[[Tx, Cluster], object]]] = {
    ClusterEffect.PLACE_REPLICAS: _place_replicas,
    ClusterEffect.RESTART_REPLICAS: _to_all(ReplicaTrigger.RESTART),
    ClusterEffect.STOP_REPLICAS: _to_all(ReplicaTrigger.STOP),
    ClusterEffect.TERMINATE_REPLICAS: _to_all(ReplicaTrigger.TERMINATE),
    ClusterEffect.WANT_STOPPED: lambda tx, cluster: tx.runtime.want(FACTS, cluster.id, Wanted.STOPPED),
    ClusterEffect.TELL_FAILED: _tell,
}


def balance_ran_out(tx: Tx, organization_id: str) -> bool:
    """Stop the organization's oldest serving cluster; False if there is none."""
    serving = CLUSTERS.first(tx, 1, clusters.IS_SERVING, organization_id=organization_id, terminated_at=None)
    for cluster in serving:
        apply(tx, cluster, ClusterTrigger.BALANCE_RAN_OUT, RAN_OUT)
    return bool(serving)


def funded(tx: Tx, organization_id: str) -> bool:
    """Say of what the balance stopped that there are funds again."""
    mine = {"organization_id": organization_id, "terminated_at": None}
    stopped = CLUSTERS.first(tx, AT_ONCE, **mine, status_reason=RAN_OUT)
    for cluster in stopped:
        CLUSTERS.updated(tx, cluster, status_reason=FUNDED_AGAIN)
    return len(stopped) == AT_ONCE


def _stopped(tx: Tx, item: DueItem) -> None:
    cluster = clusters.find(tx, item.subject)
    if cluster is not None:
        apply(tx, cluster, ClusterTrigger.STOPPED)


def _grace_over(tx: Tx, item: DueItem) -> None:
    cluster = clusters.find(tx, item.subject)
    if cluster is not None and cluster.status in SERVING:
        reason = f"No replica was healthy for {tx.settings.interruption_grace_seconds:g} seconds."
        apply(tx, cluster, ClusterTrigger.FAILED, f"{reason} {cluster.status_reason or ''}".strip())


REPLICAS: Final = Replicas(
    noun="cluster",
    rows=clusters.REPLICA_ROWS,
    queue=vacancies.CLUSTERS,
    facts=Facts(started="replica.start"),
    find=clusters.find,
    settle=settle,
    surplus=(ReplicaTrigger.TERMINATE, "The cluster was scaled down."),
)

HANDLERS: Final[Mapping[str, DueHandler]] = {**REPLICAS.handlers(), STOP: _stopped, GRACE: _grace_over}
