"""How clusters are answered (section 2, "Cluster"): the summary, and the detail with replicas and GPU model."""

from collections.abc import Mapping, Sequence
from typing import Final

from sqlalchemy import RowMapping

from relay_localcloud.capacity.catalog import DEFAULT_DISK_GB, GPU_MODELS
from relay_localcloud.clusters.clusters import Cluster
from relay_localcloud.clusters.moves import REPLICAS
from relay_localcloud.kernel.instants import optional_timestamp, timestamp
from relay_localcloud.replicas.rows import Replica
from relay_localcloud.replicas.states import ReplicaState
from relay_localcloud.workloads.records import endpoint_url
from relay_wire.clusters import ClusterCreate

DEFAULT_PORT: Final = 80
SSH_PORT: Final = 22
GIBIBYTE: Final = 2**30


def summary(cluster: Cluster, gateway_url: str) -> dict[str, object]:
    """A cluster as lists show it."""
    return _present(
        {
            "id": cluster.id,
            "organizationId": cluster.organization_id,
            "name": cluster.name,
            "status": cluster.status.value,
            "activeReplicas": cluster.active_replicas,
            "replicaCount": cluster.replica_count,
            "endpointUrl": endpoint_url(cluster.label, gateway_url),
            "gpuModelId": cluster.gpu_model_id,
            "createdAt": timestamp(cluster.created_at),
        }
    )


def detail(
    cluster: Cluster, replicas: Sequence[Replica], nodes: Mapping[str, RowMapping], gateway_url: str
) -> dict[str, object]:
    """A cluster with everything in it; `nodes` has the rows of its replicas' nodes by id."""
    asked = cluster.created_as
    model = GPU_MODELS.get(cluster.gpu_model_id or "")
    return _present(
        {
            "id": cluster.id,
            "organizationId": cluster.organization_id,
            "name": cluster.name,
            "status": cluster.status.value,
            "statusReason": cluster.status_reason,
            "gpusPerReplica": cluster.gpus_per_replica,
            "resourceSize": cluster.resource_size,
            "replicaCount": cluster.replica_count,
            "tier": cluster.tier,
            "allowFallback": asked.allow_fallback is not False,
            "diskSizeGb": disk_size_gb(asked),
            "privileged": bool(asked.privileged),
            "replicas": [_replica(cluster, asked, replica, nodes.get(replica.node_id or "")) for replica in replicas],
            "createdAt": timestamp(cluster.created_at),
            "updatedAt": timestamp(cluster.updated_at),
            "deployToken": cluster.deploy_token,
            "endpointUrl": endpoint_url(cluster.label, gateway_url),
            "envVars": asked.env_vars,
            "gpuModel": _model(cluster),
            "gpuModelId": model.id if model else None,
            "healthCheckPath": asked.health_check_path,
            "healthCheckPort": asked.health_check_port,
            "healthChecks": asked.health_checks,
            "imageUrl": asked.image_url,
            "preferredRegions": asked.preferred_regions,
            "containerPort": asked.container_port,
        }
    )


def disk_size_gb(asked: ClusterCreate) -> int:
    """The disk of each replica."""
    return DEFAULT_DISK_GB if asked.disk_size_gb is None else asked.disk_size_gb


def _model(cluster: Cluster) -> dict[str, object] | None:
    model = GPU_MODELS.get(cluster.gpu_model_id or "")
    return None if model is None else model.shown


def _replica(cluster: Cluster, asked: ClusterCreate, replica: Replica, node: RowMapping | None) -> dict[str, object]:
    model = GPU_MODELS.get(cluster.gpu_model_id or "")
    checked_at = optional_timestamp(replica.checked_at)
    address = replica.sequence % 65_536
    return _present(
        {
            "id": replica.id,
            "gpuCount": cluster.gpus_per_replica,
            "status": REPLICAS.shown_status(replica),
            "healthy": replica.status is ReplicaState.HEALTHY,
            "nvlinkEnabled": bool(model and model.nvlink and cluster.gpus_per_replica > 1),
            "createdAt": timestamp(replica.created_at),
            "consecutiveFailures": replica.consecutive_failures,
            "diskTotalBytes": disk_size_gb(asked) * GIBIBYTE,
            "diskUsedBytes": 0,
            "diskUpdatedAt": checked_at,
            "internalIp": f"10.0.{address // 256}.{address % 256}",
            "lastHealthCheckAt": checked_at,
            "nodeHostname": node["id"].replace("_", "-") if node else None,
            "nodeId": replica.node_id,
            "nodeLocation": node["location"] if node else None,
            "nodeRegion": node["region"] if node else None,
            "port": asked.container_port or DEFAULT_PORT,
            "sshPort": SSH_PORT,
            "startedAt": optional_timestamp(replica.started_at),
        }
    )


def _present(fields: Mapping[str, object | None]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}
