"""Clusters and replicas as they are kept."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Index,
    Integer,
    RowMapping,
    String,
    Table,
    Text,
    insert,
    select,
    text,
    update,
)

from relay_localcloud.capacity.placement import SPOT, Demand
from relay_localcloud.clusters.states import SERVING
from relay_localcloud.kernel.instants import DAY
from relay_localcloud.kernel.schema import metadata
from relay_localcloud.kernel.store import Tx
from relay_localcloud.replicas.rows import replica_table
from relay_localcloud.replicas.steps import Intent
from relay_wire.clusters import ClusterCreate, ClusterStatus

READABLE_AFTER_TERMINATION: Final = DAY
"""How long a terminated cluster is still answered (assumed)."""

clusters = Table(
    "clusters",
    metadata,
    Column("sequence", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("organization_id", String, nullable=False),
    Column("name", String, nullable=False),
    Column("status", String, nullable=False),
    Column("status_reason", Text),
    Column("replica_count", Integer, nullable=False),
    Column("active_replicas", Integer, nullable=False),
    Column("hopeless_since", BigInteger),  # since when no replica is healthy or about to be
    Column("gpu_model_id", String),
    Column("gpus_per_replica", Integer, nullable=False),
    Column("replica_price_cents", BigInteger, nullable=False),  # an hour
    Column("resource_size", String, nullable=False),
    Column("tier", String, nullable=False),
    Column("label", String, nullable=False, unique=True),
    Column("deploy_token", String, nullable=False),
    Column("request", Text, nullable=False),  # the body of its create, as JSON
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("terminated_at", BigInteger),
    Index("live_cluster_names", "organization_id", "name", unique=True, sqlite_where=text("terminated_at IS NULL")),
    Index("live_clusters", "organization_id", "sequence", sqlite_where=text("terminated_at IS NULL")),
)

replicas = replica_table("replicas", "cluster")


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster, as its row has it."""

    sequence: int
    id: str
    organization_id: str
    name: str
    status: ClusterStatus
    status_reason: str | None
    replica_count: int
    active_replicas: int
    hopeless_since: int | None
    gpu_model_id: str | None
    gpus_per_replica: int
    replica_price_cents: int
    resource_size: str
    tier: str
    label: str
    deploy_token: str
    request: str
    created_at: int
    updated_at: int
    terminated_at: int | None

    @property
    def created_as(self) -> ClusterCreate:
        """The body of its create."""
        return ClusterCreate.model_validate_json(self.request, extra="ignore")

    @property
    def demand(self) -> Demand | None:
        """What each replica needs of a node; None where it takes no GPU."""
        if self.gpu_model_id is None:
            return None
        created_as = self.created_as
        return Demand(
            organization_id=self.organization_id,
            gpu_model_id=self.gpu_model_id,
            gpu_count=self.gpus_per_replica,
            preferred_regions=tuple(created_as.preferred_regions or ()),
            allow_fallback=created_as.allow_fallback is not False,
            spot=self.tier == SPOT,
            counted_as="gpusPerReplica",
        )

    @property
    def intent(self) -> Intent:
        """What is wanted of its replicas now."""
        return Intent(self.replica_count if self.status in SERVING else 0)

    @property
    def generation(self) -> int:
        """What its replicas run never changes."""
        return 1

    @property
    def engine_image(self) -> str | None:
        """Deployments alone have one."""
        return None

    @property
    def replica_needs(self) -> str:
        """What each replica needs, in words."""
        return f"{self.gpus_per_replica} x {self.gpu_model_id}" if self.gpu_model_id else self.resource_size


def insert_cluster(tx: Tx, columns: Mapping[str, object]) -> Cluster:
    """Keep a cluster that was just admitted."""
    row = tx.connection.execute(insert(clusters).returning(clusters), columns).mappings().one()
    return _cluster(row)


def change_cluster(tx: Tx, cluster_id: str, **columns: object) -> None:
    """Change columns of a cluster, and when it was updated."""
    statement = update(clusters).where(clusters.c.id == cluster_id)
    tx.connection.execute(statement.values(updated_at=tx.now, **columns))


def find(tx: Tx, cluster_id: str) -> Cluster | None:
    """A cluster by its id; a terminated one for 24 hours only."""
    row = tx.connection.execute(select(clusters).where(clusters.c.id == cluster_id)).mappings().first()
    if row is None:
        return None
    gone = row["terminated_at"]
    return None if gone is not None and tx.now - gone >= READABLE_AFTER_TERMINATION else _cluster(row)


def name_is_taken(connection: Connection, organization_id: str, name: str) -> bool:
    """Whether a live cluster has the name."""
    c = clusters.c
    query = select(c.id).where(c.organization_id == organization_id, c.name == name, c.terminated_at.is_(None))
    return connection.execute(query).first() is not None


def live_page(connection: Connection, organization_id: str, before: int | None, count: int) -> list[Cluster]:
    """Live clusters of an organization, newest first, those made before the sequence number `before`."""
    c = clusters.c
    query = select(clusters).where(c.organization_id == organization_id, c.terminated_at.is_(None))
    if before is not None:
        query = query.where(c.sequence < before)
    rows = connection.execute(query.order_by(c.sequence.desc()).limit(count)).mappings()
    return [_cluster(row) for row in rows]


def live_of(connection: Connection, organization_id: str) -> list[Cluster]:
    """Every live cluster of an organization, the oldest first."""
    c = clusters.c
    query = select(clusters).where(c.organization_id == organization_id, c.terminated_at.is_(None))
    return [_cluster(row) for row in connection.execute(query.order_by(c.sequence)).mappings()]


def _cluster(row: RowMapping) -> Cluster:
    return Cluster(**{**row, "status": ClusterStatus(row["status"])})
