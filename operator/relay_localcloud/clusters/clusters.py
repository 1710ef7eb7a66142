"""The rows of clusters and of their replicas."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import Index, UniqueConstraint, text

from relay_localcloud.capacity.placement import SPOT, Demand
from relay_localcloud.clusters.states import SERVING
from relay_localcloud.kernel.instants import DAY
from relay_localcloud.kernel.retention import Remembered
from relay_localcloud.kernel.rows import Rows
from relay_localcloud.kernel.store import Tx
from relay_localcloud.quotas import quotas
from relay_localcloud.replicas.rows import replica_rows
from relay_localcloud.replicas.steps import Intent
from relay_wire.clusters import ClusterCreate, ClusterStatus

READABLE_AFTER_TERMINATION: Final = DAY
"""How long a terminated cluster can still be read (assumed)."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster."""

    sequence: int
    id: str
    organization_id: str
    name: str
    status: ClusterStatus
    status_reason: str | None
    replica_count: int
    active_replicas: int
    hopeless_since: int | None  # since when no replica is healthy, starting or recovering
    gpu_model_id: str | None
    gpus_per_replica: int
    replica_price_cents: int  # per hour
    resource_size: str
    tier: str
    label: str
    deploy_token: str
    created_as: ClusterCreate  # the body of its create
    created_at: int
    updated_at: int
    terminated_at: int | None
    login_bytes: int = 0  # the secrets of its registry credential, when it was created

    @property
    def demand(self) -> Demand | None:
        """What each replica needs of a node; None if it takes no GPU."""
        if self.gpu_model_id is None:
            return None
        return Demand(
            organization_id=self.organization_id,
            gpu_model_id=self.gpu_model_id,
            gpu_count=self.gpus_per_replica,
            preferred_regions=tuple(self.created_as.preferred_regions or ()),
            allow_fallback=self.created_as.allow_fallback is not False,
            spot=self.tier == SPOT,
            counted_as="gpusPerReplica",
        )

    @property
    def intent(self) -> Intent:
        """What is wanted of its replicas now; none while it does not serve."""
        return Intent(self.replica_count if self.status in SERVING else 0)

    def request_bytes(self, replicas: int) -> int:
        """What it adds to the quota of its create requests with so many replicas."""
        return quotas.request_bytes(self.created_as, replicas, self.login_bytes)

    @property
    def replica_needs(self) -> str:
        """What each replica needs, in words."""
        return f"{self.gpus_per_replica} x {self.gpu_model_id}" if self.gpu_model_id else self.resource_size


_LIVE: Final = text("terminated_at IS NULL")
CLUSTERS: Final = Rows(
    Cluster,
    "clusters",
    UniqueConstraint("label"),
    Index("live_cluster_names", "organization_id", "name", unique=True, sqlite_where=_LIVE),
    Index("live_clusters", "organization_id", "sequence", sqlite_where=_LIVE),
    Index("ended_clusters", "terminated_at", "id", sqlite_where=text("terminated_at IS NOT NULL")),
    named={"created_as": "request"},
)
clusters: Final = CLUSTERS.table
IS_SERVING: Final = clusters.c.status.in_(sorted(status.value for status in SERVING))
ENDED: Final = Remembered(clusters, "terminated_at", READABLE_AFTER_TERMINATION)
REPLICA_ROWS: Final = replica_rows("replicas", "cluster")
replicas: Final = REPLICA_ROWS.table


def find(tx: Tx, cluster_id: str) -> Cluster | None:
    """A cluster by its id, a terminated one for 24 hours only; None if there is none."""
    cluster = CLUSTERS.find(tx, id=cluster_id)
    gone = None if cluster is None else cluster.terminated_at
    return None if gone is not None and tx.now - gone >= READABLE_AFTER_TERMINATION else cluster
