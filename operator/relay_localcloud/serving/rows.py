"""Serving deployments and their replicas as they are kept."""

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
    Select,
    String,
    Table,
    Text,
    insert,
    select,
    text,
    update,
)

from relay_localcloud.capacity.nodes import COMMUNITY
from relay_localcloud.capacity.placement import Demand
from relay_localcloud.kernel.schema import metadata
from relay_localcloud.kernel.store import Tx
from relay_localcloud.replicas.rows import replica_table
from relay_localcloud.replicas.steps import Intent
from relay_localcloud.serving.states import SERVING
from relay_wire.serving import DeploymentCreate, DeploymentStatus

_LIVE: Final = text("gone_at IS NULL")

deployments = Table(
    "serving_deployments",
    metadata,
    Column("sequence", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("organization_id", String, nullable=False),
    Column("catalog_id", String, nullable=False),  # whose model it is; empty: everybody's, a built-in one
    Column("public_model_id", String, nullable=False),
    Column("node_pool", String, nullable=False),
    Column("min_prompt_bytes", BigInteger, nullable=False),
    Column("max_prompt_bytes", BigInteger, nullable=False),
    Column("status", String, nullable=False),
    Column("status_reason", Text),
    Column("leaving", BigInteger),  # draining: how many replicas at a time; null: all
    Column("generation", Integer, nullable=False),  # counts changes of what the replicas run
    Column("price_cents", BigInteger, nullable=False),  # of a replica, an hour
    Column("spec", Text, nullable=False),  # a DeploymentCreate as JSON, with its changes
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("gone_at", BigInteger),
    Index("live_deployments_of_model", "catalog_id", "public_model_id", "sequence", sqlite_where=_LIVE),
    Index("live_deployments", "organization_id", "sequence", sqlite_where=_LIVE),
)

replicas = replica_table("serving_replicas", "deployment")


@dataclass(frozen=True, slots=True)
class Deployment:
    """A deployment, as its row has it; `spec` is what is wanted of it now."""

    sequence: int
    id: str
    organization_id: str
    catalog_id: str
    status: DeploymentStatus
    status_reason: str | None
    leaving: int | None
    generation: int
    price_cents: int
    spec: DeploymentCreate
    created_at: int
    updated_at: int
    gone_at: int | None

    @property
    def node_pool(self) -> str:
        """The capacity lane that it counts to."""
        return self.spec.node_pool or COMMUNITY

    @property
    def wanted(self) -> int:
        """How many replicas there are to be now."""
        return self.spec.replicas_desired if self.status in SERVING else 0

    @property
    def intent(self) -> Intent:
        """What its next steps follow from."""
        return Intent(self.wanted, self.spec.max_unavailable, self.leaving)

    @property
    def replica_price_cents(self) -> int:
        """An hour."""
        return self.price_cents

    @property
    def name(self) -> str:
        """What it is called in events and on bills."""
        return self.spec.public_model_id

    @property
    def gpu_model_id(self) -> str:
        """What each replica runs on."""
        return self.spec.gpu_model_id

    @property
    def engine_image(self) -> str | None:
        """What each replica runs."""
        return self.spec.engine_image

    @property
    def demand(self) -> Demand:
        """What each replica needs of a node."""
        return Demand(
            self.organization_id,
            self.gpu_model_id,
            self.spec.gpu_count_per_replica,
            node_pool=self.node_pool,
            counted_as="gpuCountPerReplica",
        )

    @property
    def replica_needs(self) -> str:
        """What each replica needs, in words."""
        return f"{self.spec.gpu_count_per_replica} x {self.gpu_model_id}"


def insert_deployment(tx: Tx, columns: Mapping[str, object]) -> Deployment:
    """Keep a deployment that was just admitted."""
    return _deployment(tx.connection.execute(insert(deployments).returning(deployments), columns).mappings().one())


def change_deployment(tx: Tx, deployment_id: str, **columns: object) -> None:
    """Change columns of a deployment, and when it was updated."""
    change = update(deployments).where(deployments.c.id == deployment_id)
    tx.connection.execute(change.values(updated_at=tx.now, **columns))


def find(tx: Tx, deployment_id: str) -> Deployment | None:
    """A live deployment by its id."""
    d = deployments.c
    found = _deployments(tx.connection, select(deployments).where(d.id == deployment_id, d.gone_at.is_(None)))
    return next(iter(found), None)


def page(connection: Connection, organization_id: str, before: int | None, count: int) -> list[Deployment]:
    """Live deployments of an organization, newest first, those made before the sequence number `before`."""
    d = deployments.c
    query = select(deployments).where(d.organization_id == organization_id, d.gone_at.is_(None))
    if before is not None:
        query = query.where(d.sequence < before)
    return _deployments(connection, query.order_by(d.sequence.desc()).limit(count))


def live_of(connection: Connection, organization_id: str) -> list[Deployment]:
    """Every live deployment of an organization, the oldest first."""
    d = deployments.c
    query = select(deployments).where(d.organization_id == organization_id, d.gone_at.is_(None))
    return _deployments(connection, query.order_by(d.sequence))


def of_model(connection: Connection, catalog_id: str, public_model_id: str) -> list[Deployment]:
    """Every live deployment of a model, of whatever organization, the oldest first."""
    d = deployments.c
    query = select(deployments).where(
        d.catalog_id == catalog_id, d.public_model_id == public_model_id, d.gone_at.is_(None)
    )
    return _deployments(connection, query.order_by(d.sequence))


def _deployments(connection: Connection, query: Select[*tuple[object, ...]]) -> list[Deployment]:
    return [_deployment(row) for row in connection.execute(query).mappings()]


def _deployment(row: RowMapping) -> Deployment:
    kept = {name: row[name] for name in Deployment.__dataclass_fields__}
    spec = DeploymentCreate.model_validate_json(row["spec"], extra="ignore")
    return Deployment(**{**kept, "status": DeploymentStatus(row["status"]), "spec": spec})
