"""The rows of serving deployments and of their replicas."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Index, or_, text

from relay_localcloud.capacity.placement import Demand
from relay_localcloud.kernel.rows import Rows
from relay_localcloud.kernel.store import Tx
from relay_localcloud.replicas.rows import replica_rows
from relay_localcloud.replicas.steps import Intent
from relay_localcloud.serving.states import SERVING
from relay_wire.serving import DeploymentCreate, DeploymentStatus

_LIVE: Final = text("gone_at IS NULL")
ENGINE_PORTS: Final[Mapping[str, int]] = {"vllm": 8000, "sglang": 30000, "trtllm": 8000}
"""The default ports of engines (assumed)."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """A deployment; `spec` is its desired state."""

    sequence: int
    id: str
    organization_id: str
    catalog_id: str  # the organization whose catalog has the model: its own
    public_model_id: str
    node_pool: str  # part of its lane
    min_prompt_bytes: int
    max_prompt_bytes: int
    status: DeploymentStatus
    status_reason: str | None
    leaving: int | None  # how many replicas drain at a time; None for all
    generation: int  # counts changes of what the replicas run
    replica_price_cents: int  # per hour
    spec: DeploymentCreate
    created_at: int
    updated_at: int
    gone_at: int | None

    @property
    def wanted(self) -> int:
        """The desired number of replicas now; 0 while it does not serve."""
        return self.spec.replicas_desired if self.status in SERVING else 0

    @property
    def intent(self) -> Intent:
        """What is wanted of its replicas now."""
        return Intent(self.wanted, self.spec.max_unavailable, self.leaving, self.generation, self.spec.engine_image)

    @property
    def name(self) -> str:
        """Its name in events and on bills."""
        return self.public_model_id

    @property
    def gpu_model_id(self) -> str:
        """The GPU model of each replica."""
        return self.spec.gpu_model_id

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


DEPLOYMENTS: Final = Rows(
    Deployment,
    "serving_deployments",
    Index("live_deployments_of_model", "catalog_id", "public_model_id", "sequence", sqlite_where=_LIVE),
    Index("live_deployments", "organization_id", "sequence", sqlite_where=_LIVE),
    named={"replica_price_cents": "price_cents"},
)
deployments: Final = DEPLOYMENTS.table
CAN_BE_STOPPED: Final = or_(
    deployments.c.status.in_(sorted(status.value for status in SERVING)), deployments.c.leaving.is_not(None)
)
REPLICA_ROWS: Final = replica_rows("serving_replicas", "deployment")
replicas: Final = REPLICA_ROWS.table


def find(tx: Tx, deployment_id: str) -> Deployment | None:
    """A live deployment by its id; None if there is none."""
    return DEPLOYMENTS.find(tx, id=deployment_id, gone_at=None)
