"""Completes the stop of a whole cluster of the cloud, once no Pod of its replicas is left anywhere."""

from collections.abc import Callable

from relay_localcloud.clusters import clusters, moves
from relay_localcloud.clusters.clusters import Cluster
from relay_localcloud.clusters.states import ClusterTrigger
from relay_localcloud.kernel.store import Tx
from relay_localcloud.runtimes.kubernetes.holdings import HOLDINGS, Holding
from relay_localcloud.runtimes.kubernetes.names import name_of, namespace_of
from relay_wire.clusters import ClusterStatus

MayRun = Callable[[str, str, str], bool]
"""Whether a Pod of this cloud may exist on a Kubernetes cluster, by its namespace and name."""


def look(tx: Tx, holding: Holding, may_run: MayRun) -> None:
    """Mark a stopping cluster as stopped once its Pods are gone, and drop the holding.

    Drops at once the holding of a holder that never had anything on a Kubernetes cluster.
    """
    cluster = clusters.find(tx, holding.id)
    if cluster is not None and cluster.status is ClusterStatus.STOPPING:
        if any(_may_run(tx, cluster, each.id, may_run) for each in moves.REPLICAS.of(tx, cluster.id)):
            return
        moves.apply(tx, cluster, ClusterTrigger.STOPPED)
    HOLDINGS.remove(tx, id=holding.id)


def _may_run(tx: Tx, cluster: Cluster, replica_id: str, may_run: MayRun) -> bool:
    holding = HOLDINGS.find(tx, id=replica_id)
    if holding is None or holding.cluster is None:
        return False
    return may_run(holding.cluster, namespace_of(cluster.organization_id), name_of(replica_id))
