"""Clusters (section 4, "Clusters"), answered as a summary, or in detail with replicas and GPU model (section 2)."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from relay_localcloud.capacity import nodes
from relay_localcloud.capacity.catalog import DEFAULT_DISK_GB, GPU_MODELS, SHOWN_OF_MODEL
from relay_localcloud.capacity.nodes import Node
from relay_localcloud.capacity.offers import require_offered
from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.clusters import admission, clusters, moves
from relay_localcloud.clusters.clusters import CLUSTERS, Cluster
from relay_localcloud.clusters.moves import REPLICAS
from relay_localcloud.clusters.states import ClusterTrigger
from relay_localcloud.faults.quotes import PriceFactor
from relay_localcloud.http.bodies import Body
from relay_localcloud.http.errors import not_found
from relay_localcloud.http.pages import PageRequest
from relay_localcloud.http.principal import ClusterReader, ClusterWriter, OrganizationId, Principal, ResourceId
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel.instants import optional_timestamp
from relay_localcloud.kernel.rows import shown
from relay_localcloud.kernel.store import Tx
from relay_localcloud.replicas.rows import Replica
from relay_localcloud.replicas.states import ReplicaState
from relay_localcloud.runtimes.runtime import Noun
from relay_localcloud.workloads.records import endpoint_url
from relay_wire.clusters import ClusterCreate, ClusterDetail, ClusterPage, ClusterScale, ClusterSummary

router = Router("Clusters")

DEFAULT_PORT: Final = 80
SSH_PORT: Final = 22
GIBIBYTE: Final = 2**30
_SECRETS: Final = frozenset({"deployToken", "envVars"})


@router.post("/v1/orgs/{orgId}/clusters/create", response_model=ClusterSummary, summary="Create a cluster")
def create_cluster(
    _: ClusterWriter,
    organization_id: OrganizationId,
    body: Body[ClusterCreate],
    factor: PriceFactor,
    cloud: CurrentCloud,
    tx: Tx,
) -> dict[str, object]:
    """Answers the summary. If there is room for only some replicas, it is degraded until the others find room."""
    require_offered(tx, Noun.CLUSTER)
    cluster = admission.create(tx, cloud.vault, organization_id, body, factor)
    return _summary(cluster, cloud.gateway_url)


@router.get("/v1/orgs/{orgId}/clusters", response_model=ClusterPage, summary="List clusters")
def list_clusters(
    _: ClusterReader, organization_id: OrganizationId, page: PageRequest, cloud: CurrentCloud, tx: Tx
) -> dict[str, object]:
    """Answers summaries, newest first; terminated clusters are left out."""
    rows = partial(CLUSTERS.page, tx, organization_id=organization_id, terminated_at=None)
    return page.newest("clusters", organization_id, rows, lambda row: _summary(row, cloud.gateway_url))


@router.get("/v1/clusters/{id}", response_model=ClusterSummary, summary="Get a cluster")
def get_cluster(caller: ClusterReader, cluster_id: ResourceId, cloud: CurrentCloud, tx: Tx) -> dict[str, object]:
    """Answers the summary, also for 24 hours after the termination."""
    return _summary(_visible(tx, caller, cluster_id), cloud.gateway_url)


@router.get("/v1/clusters/{id}/detail", response_model=ClusterDetail, summary="Get a cluster with its replicas")
def get_cluster_detail(caller: ClusterReader, cluster_id: ResourceId, cloud: CurrentCloud, tx: Tx) -> dict[str, object]:
    """Leaves out replicas that ended, and `deployToken` and `envVars` for callers who may only read clusters."""
    cluster = _visible(tx, caller, cluster_id)
    detail = _detail(tx, cluster, cloud.gateway_url)
    if caller.holds("clusters:write", cluster.organization_id):
        return detail
    return {name: value for name, value in detail.items() if name not in _SECRETS}


@router.post("/v1/clusters/{id}/scale", response_model=ClusterSummary, summary="Change the number of replicas")
def scale_cluster(
    caller: ClusterWriter, cluster_id: ResourceId, body: Body[ClusterScale], cloud: CurrentCloud, tx: Tx
) -> dict[str, object]:
    """Answers the summary; 409 if the cluster does not serve."""
    admission.require_replica_count(body.replica_count)
    cluster = moves.scale(tx, _visible(tx, caller, cluster_id), body.replica_count)
    return _summary(cluster, cloud.gateway_url)


@router.post("/v1/clusters/{id}/restart", response_model=ClusterSummary, summary="Restart or start a cluster")
def restart_cluster(caller: ClusterWriter, cluster_id: ResourceId, cloud: CurrentCloud, tx: Tx) -> dict[str, object]:
    """Recreates a serving cluster in place, and restarts unhealthy replicas; starts a stopped or failed cluster."""
    return _act(tx, caller, cluster_id, cloud, ClusterTrigger.RESTART)


@router.post("/v1/clusters/{id}/stop", response_model=ClusterSummary, summary="Stop a cluster")
def stop_cluster(caller: ClusterWriter, cluster_id: ResourceId, cloud: CurrentCloud, tx: Tx) -> dict[str, object]:
    """Ends billing at once; the GPUs become free once it is stopped."""
    return _act(tx, caller, cluster_id, cloud, ClusterTrigger.STOP)


@router.post("/v1/clusters/{id}/terminate", response_model=ClusterSummary, summary="Terminate a cluster")
def terminate_cluster(caller: ClusterWriter, cluster_id: ResourceId, cloud: CurrentCloud, tx: Tx) -> dict[str, object]:
    """Ends it at once and for good; a repetition changes nothing."""
    return _act(tx, caller, cluster_id, cloud, ClusterTrigger.TERMINATE)


def _act(tx: Tx, caller: Principal, cluster_id: str, cloud: CurrentCloud, trigger: ClusterTrigger) -> dict[str, object]:
    return _summary(moves.apply(tx, _visible(tx, caller, cluster_id), trigger), cloud.gateway_url)


def _visible(tx: Tx, caller: Principal, cluster_id: str) -> Cluster:
    cluster = clusters.find(tx, cluster_id)
    if cluster is None:
        raise not_found("cluster", cluster_id)
    caller.admit(cluster.organization_id, "cluster", cluster_id)
    return cluster


def _summary(cluster: Cluster, gateway_url: str) -> dict[str, object]:
    """A cluster as in lists."""
    return _present(
        {
            **shown(cluster, "id", "organization_id", "name", "status", "active_replicas", "replica_count"),
            "endpointUrl": endpoint_url(cluster.label, gateway_url),
            **shown(cluster, "gpu_model_id", "created_at"),
        }
    )


def _detail(tx: Tx, cluster: Cluster, gateway_url: str) -> dict[str, object]:
    """A cluster with all its fields and its replicas."""
    asked = cluster.created_as
    model = GPU_MODELS.get(cluster.gpu_model_id or "")
    replicas = REPLICAS.of(tx, cluster.id)
    homes = nodes.by_id(tx, {replica.node_id for replica in replicas if replica.node_id})
    of_each = partial(_replica, cluster, asked, are_real=tx.runtime.reports_by_itself)
    return _present(
        {
            **shown(cluster, "id", "organization_id", "name", "status", "status_reason", "gpus_per_replica"),
            **shown(cluster, "resource_size", "replica_count", "tier"),
            "allowFallback": asked.allow_fallback is not False,
            "diskSizeGb": _disk_size_gb(asked),
            "privileged": bool(asked.privileged),
            "replicas": [of_each(replica, homes.get(replica.node_id or "")) for replica in replicas],
            **shown(cluster, "created_at", "updated_at", "deploy_token"),
            "endpointUrl": endpoint_url(cluster.label, gateway_url),
            "envVars": asked.env_vars,
            "gpuModel": shown(model, *SHOWN_OF_MODEL) if model else None,
            "gpuModelId": model.id if model else None,
            **shown(asked, "health_check_path", "health_check_port", "health_checks", "image_url"),
            **shown(asked, "preferred_regions", "container_port"),
        }
    )


def _replica(
    cluster: Cluster, asked: ClusterCreate, replica: Replica, node: Node | None, *, are_real: bool
) -> dict[str, object]:
    model = GPU_MODELS.get(cluster.gpu_model_id or "")
    return _present(
        {
            "id": replica.id,
            "gpuCount": cluster.gpus_per_replica,
            "status": REPLICAS.shown_status(replica),
            "healthy": replica.status is ReplicaState.HEALTHY,
            "nvlinkEnabled": bool(model and model.nvlink and cluster.gpus_per_replica > 1),
            **shown(replica, "created_at", "consecutive_failures"),
            **({} if are_real else _made_up(replica)),
            "diskTotalBytes": _disk_size_gb(asked) * GIBIBYTE,
            "lastHealthCheckAt": optional_timestamp(replica.checked_at),
            "nodeHostname": node.id.replace("_", "-") if node else None,
            "nodeId": replica.node_id,
            "nodeLocation": node.location if node else None,
            "nodeRegion": node.region if node else None,
            "port": asked.container_port or DEFAULT_PORT,
            **shown(replica, "started_at"),
        }
    )


def _made_up(replica: Replica) -> dict[str, object]:
    """Values that a simulated cloud invents; a cloud with real containers omits them, since nothing measures them."""
    address = replica.sequence % 65_536
    return {
        "diskUsedBytes": 0,
        "diskUpdatedAt": optional_timestamp(replica.checked_at),
        "internalIp": f"10.0.{address // 256}.{address % 256}",
        "sshPort": SSH_PORT,
    }


def _present(fields: Mapping[str, object | None]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}


def _disk_size_gb(asked: ClusterCreate) -> int:
    return DEFAULT_DISK_GB if asked.disk_size_gb is None else asked.disk_size_gb
