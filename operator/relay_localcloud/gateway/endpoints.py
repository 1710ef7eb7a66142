"""What the gateway knows of a workload: whose it is, whether it is public, whether it serves, what its image is."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import ColumnElement, select

from relay_localcloud.clusters.clusters import clusters
from relay_localcloud.kernel.store import Tx
from relay_localcloud.workloads.records import PRODUCTION
from relay_localcloud.workloads.workloads import POD, workloads
from relay_wire.clusters import ClusterCreate, ClusterStatus
from relay_wire.pods import PodStatus

WORKLOAD_COLUMNS: Final = ("status", "public", "organization_id", "image", "terminated_at")
CLUSTER_COLUMNS: Final = ("status", "active_replicas", "organization_id", "terminated_at")
"""The columns of either table that an endpoint is made of and that may change."""

_SERVING: Final = (ClusterStatus.RUNNING.value, ClusterStatus.DEGRADED.value)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where one workload answers."""

    workload_id: str
    label: str
    noun: str
    organization_id: str
    public: bool
    per_port: bool
    """Whether its host names a port, as a production VM's does."""
    unready: str | None
    """Why it does not answer, in words; None: it serves."""
    image: str | None
    deploy_token: str | None = None


def with_label(tx: Tx, label: str) -> Endpoint | None:
    """The live workload whose endpoint has this label."""
    return _workload(tx, workloads.c.label == label) or _cluster(tx, clusters.c.label == label)


def with_id(tx: Tx, workload_id: str) -> Endpoint | None:
    """The live workload with this id."""
    return _workload(tx, workloads.c.id == workload_id) or _cluster(tx, clusters.c.id == workload_id)


def _workload(tx: Tx, named: ColumnElement[bool]) -> Endpoint | None:
    query = select(workloads).where(named, workloads.c.terminated_at.is_(None))
    row = tx.connection.execute(query).mappings().first()
    if row is None:
        return None
    return Endpoint(
        workload_id=row["id"],
        label=row["label"],
        noun="pod" if row["kind"] == POD else "VM",
        organization_id=row["organization_id"],
        public=row["public"],
        per_port=row["capability_tier"] == PRODUCTION,
        unready=None if row["status"] == PodStatus.RUNNING.value else f"is {row['status']}",
        image=row["image"],
    )


def _cluster(tx: Tx, named: ColumnElement[bool]) -> Endpoint | None:
    query = select(clusters).where(named, clusters.c.terminated_at.is_(None))
    row = tx.connection.execute(query).mappings().first()
    if row is None:
        return None
    return Endpoint(
        workload_id=row["id"],
        label=row["label"],
        noun="cluster",
        organization_id=row["organization_id"],
        public=False,
        per_port=False,
        unready=_cluster_unready(row["status"], row["active_replicas"]),
        image=ClusterCreate.model_validate_json(row["request"], extra="ignore").image_url,
        deploy_token=row["deploy_token"],
    )


def _cluster_unready(status: str, healthy_replicas: int) -> str | None:
    if status not in _SERVING:
        return f"is {status}"
    return None if healthy_replicas else "has no healthy replica"
