"""Clusters (section 4, "Clusters")."""

from functools import partial

from relay_localcloud.capacity import nodes
from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.clusters import admission as cluster_admission
from relay_localcloud.clusters import clusters
from relay_localcloud.clusters import moves as cluster_moves
from relay_localcloud.clusters.clusters import Cluster
from relay_localcloud.clusters.moves import REPLICAS
from relay_localcloud.clusters.records import detail, summary
from relay_localcloud.clusters.states import ClusterTrigger
from relay_localcloud.faults.quotes import PriceFactor
from relay_localcloud.http.bodies import Body
from relay_localcloud.http.errors import not_found
from relay_localcloud.http.pages import PageRequest
from relay_localcloud.http.principal import ClusterReader, ClusterWriter, OrganizationId, Principal, ResourceId
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel.store import Tx
from relay_wire.clusters import ClusterCreate, ClusterDetail, ClusterPage, ClusterScale, ClusterSummary

router = Router("Clusters")


@router.post("/v1/orgs/{orgId}/clusters/create", response_model=ClusterSummary, summary="Create a cluster")
def create_cluster(
    _: ClusterWriter,
    organization_id: OrganizationId,
    body: Body[ClusterCreate],
    factor: PriceFactor,
    cloud: CurrentCloud,
    tx: Tx,
) -> dict[str, object]:
    """Answers the summary. With room for some replicas only it is degraded until the others find room."""
    cluster = cluster_admission.create(tx, cloud.vault, organization_id, body, factor)
    return summary(cluster, cloud.gateway_url)


@router.get("/v1/orgs/{orgId}/clusters", response_model=ClusterPage, summary="List clusters")
def list_clusters(
    _: ClusterReader, organization_id: OrganizationId, page: PageRequest, cloud: CurrentCloud, tx: Tx
) -> dict[str, object]:
    """Answers summaries, newest first; terminated clusters are left out."""
    rows = partial(clusters.live_page, tx.connection, organization_id)
    return page.newest("clusters", organization_id, rows, lambda row: summary(row, cloud.gateway_url))


@router.get("/v1/clusters/{id}", response_model=ClusterSummary, summary="Get a cluster")
def get_cluster(caller: ClusterReader, cluster_id: ResourceId, cloud: CurrentCloud, tx: Tx) -> dict[str, object]:
    """Answers the summary; a terminated one for 24 hours."""
    cluster = _visible(tx, caller, cluster_id)
    return summary(cluster, cloud.gateway_url)


@router.get("/v1/clusters/{id}/detail", response_model=ClusterDetail, summary="Get a cluster with its replicas")
def get_cluster_detail(caller: ClusterReader, cluster_id: ResourceId, cloud: CurrentCloud, tx: Tx) -> dict[str, object]:
    """Answers everything about it; replicas that ended are left out."""
    cluster = _visible(tx, caller, cluster_id)
    replicas = REPLICAS.of(tx.connection, cluster.id)
    homes = nodes.rows_by_id(tx.connection, {replica.node_id for replica in replicas if replica.node_id})
    return detail(cluster, replicas, homes, cloud.gateway_url)


@router.post("/v1/clusters/{id}/scale", response_model=ClusterSummary, summary="Change the number of replicas")
def scale_cluster(
    caller: ClusterWriter, cluster_id: ResourceId, body: Body[ClusterScale], cloud: CurrentCloud, tx: Tx
) -> dict[str, object]:
    """Answers the summary; 409 where the cluster does not serve."""
    cluster_admission.require_replica_count(body.replica_count)
    cluster = cluster_moves.scale(tx, _visible(tx, caller, cluster_id), body.replica_count)
    return summary(cluster, cloud.gateway_url)


@router.post("/v1/clusters/{id}/restart", response_model=ClusterSummary, summary="Restart or start a cluster")
def restart_cluster(caller: ClusterWriter, cluster_id: ResourceId, cloud: CurrentCloud, tx: Tx) -> dict[str, object]:
    """A serving one is recreated in place, unhealthy replicas start afresh; a stopped or failed one is started."""
    return _act(tx, caller, cluster_id, cloud, ClusterTrigger.RESTART)


@router.post("/v1/clusters/{id}/stop", response_model=ClusterSummary, summary="Stop a cluster")
def stop_cluster(caller: ClusterWriter, cluster_id: ResourceId, cloud: CurrentCloud, tx: Tx) -> dict[str, object]:
    """Billing ends at once; the GPUs are free when it is stopped."""
    return _act(tx, caller, cluster_id, cloud, ClusterTrigger.STOP)


@router.post("/v1/clusters/{id}/terminate", response_model=ClusterSummary, summary="Terminate a cluster")
def terminate_cluster(caller: ClusterWriter, cluster_id: ResourceId, cloud: CurrentCloud, tx: Tx) -> dict[str, object]:
    """Ends it at once and for good; a second time changes nothing."""
    return _act(tx, caller, cluster_id, cloud, ClusterTrigger.TERMINATE)


def _act(tx: Tx, caller: Principal, cluster_id: str, cloud: CurrentCloud, trigger: ClusterTrigger) -> dict[str, object]:
    return summary(cluster_moves.apply(tx, _visible(tx, caller, cluster_id), trigger), cloud.gateway_url)


def _visible(tx: Tx, caller: Principal, cluster_id: str) -> Cluster:
    cluster = clusters.find(tx, cluster_id)
    if cluster is None:
        raise not_found("cluster", cluster_id)
    caller.admit(cluster.organization_id, "cluster", cluster_id)
    return cluster
