"""Completes the stop of a whole cluster, once no Pod of its replicas is left."""

from collections.abc import Callable

from relay_localcloud.clusters import clusters, moves
from relay_localcloud.clusters.clusters import Cluster
from relay_localcloud.clusters.states import ClusterTrigger
from relay_localcloud.kernel.store import Tx
from relay_localcloud.runtimes.kubernetes.holdings import HOLDINGS, Holding
from relay_localcloud.runtimes.kubernetes.names import INSTANCE, name_of, namespace_of
from relay_localcloud.runtimes.kubernetes.observed import Pod
from relay_wire.clusters import ClusterStatus


def look(tx: Tx, holding: Holding, pod: Callable[[str, str], Pod | None], instance: str) -> None:
    """Mark a stopping cluster as stopped once its Pods are gone, and drop the holding.

    Drops at once the holding of a holder that never had anything on the cluster.
    """
    cluster = clusters.find(tx, holding.id)
    if cluster is not None and cluster.status is ClusterStatus.STOPPING:
        if any(_is_there(cluster, each.id, pod, instance) for each in moves.REPLICAS.of(tx, cluster.id)):
            return
        moves.apply(tx, cluster, ClusterTrigger.STOPPED)
    HOLDINGS.remove(tx, id=holding.id)


def _is_there(cluster: Cluster, replica_id: str, pod: Callable[[str, str], Pod | None], instance: str) -> bool:
    found = pod(namespace_of(cluster.organization_id), name_of(replica_id))
    return found is not None and found.metadata.labels.get(INSTANCE) == instance
