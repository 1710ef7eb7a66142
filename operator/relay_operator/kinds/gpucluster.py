"""GpuCluster: replicas of a container behind one endpoint (section 2, "Cluster")."""

from typing import Annotated, Literal

from pydantic import Field

from relay_operator.api.definition import AGE, READY, REASON, Column, Definition, Scale
from relay_operator.api.meta import Model, Resource, Time
from relay_operator.api.parts import Image, Port, ReplicaGpu
from relay_operator.api.schema import atomic, field_rules, map_by, rules
from relay_operator.api.workload import SAME_ACCOUNT, CommonStatus, WorkloadSpec

MAX_REPLICAS = 1000
SHOWN_REPLICAS = 100
"""Rows of the table in status; the counts beside it are over all replicas."""


class GpuClusterSpec(WorkloadSpec):
    """What is asked of one cluster."""

    model_config = rules(SAME_ACCOUNT)

    image: Image | None = Field(None, description="Container image.")
    replicas: int = Field(
        ge=0,
        le=MAX_REPLICAS,
        json_schema_extra=field_rules(
            ("self >= 1", "a cluster has at least one replica: to stop paying for it, set powerState: Stopped")
        ),
        description="Replicas, at least 1; what `kubectl scale` changes.",
    )
    gpu: ReplicaGpu | None = Field(None, description="Which GPUs each replica has, and how many.")
    resource_size: str | None = Field(None, min_length=1, max_length=128, description="Size of each replica's machine.")
    tier: str | None = Field(
        None, min_length=1, max_length=64, description="Tier of capacity, as the catalog names it."
    )
    container_port: Port | None = Field(None, description="Port that the container serves on.")
    container_command: list[Annotated[str, Field(max_length=4096)]] | None = Field(
        None, min_length=1, max_length=128, json_schema_extra=atomic(), description="Command run in the container."
    )
    health_check_path: str | None = Field(
        None, min_length=1, max_length=2048, pattern=r"^/\S*$", description="Path asked for the health of a replica."
    )
    health_check_port: Port | None = Field(None, description="Port asked for the health of a replica.")
    health_checks: list[Annotated[str, Field(min_length=1, max_length=2048)]] | None = Field(
        None, max_length=32, json_schema_extra=atomic(), description="Further health checks, as the cloud defines them."
    )
    preferred_regions: list[Annotated[str, Field(min_length=1, max_length=128)]] | None = Field(
        None, max_length=32, json_schema_extra=atomic(), description="Regions to place replicas in, best first."
    )
    allow_fallback: bool | None = Field(
        None, description="Whether other regions may be used where the preferred ones are full."
    )
    disk_size_gb: int | None = Field(None, ge=1, le=65_536, description="Disk of each replica in GB.")
    registry_credential_id: str | None = Field(
        None, min_length=1, max_length=253, description="The cloud's id of the credential for a private image."
    )
    privileged: bool | None = Field(None, description="Whether the container runs privileged.")
    kernel_modules: list[Annotated[str, Field(min_length=1, max_length=64)]] | None = Field(
        None, max_length=32, json_schema_extra=atomic(), description="Kernel modules loaded for the container."
    )
    template_id: str | None = Field(None, min_length=1, max_length=253, description="Template to start from.")


class ReplicaStatus(Model):
    """What the cloud says about one replica."""

    id: str = Field(min_length=1, max_length=253, description="The cloud's identifier.")
    status: str = Field(max_length=64, description="The cloud's word for its state.")
    healthy: bool = Field(description="Whether it answers its health checks.")
    gpu_count: int | None = Field(None, ge=0, description="GPUs it has.")
    consecutive_failures: int | None = Field(None, ge=0, description="Health checks that failed in a row.")
    endpoint_url: str | None = Field(None, max_length=2048, description="Where this replica is reached.")
    node_id: str | None = Field(None, max_length=253, description="Node it is on.")
    node_region: str | None = Field(None, max_length=128, description="Region of that node.")
    started_at: Time | None = Field(None, description="When it started.")


class GpuClusterStatus(CommonStatus):
    """What the cloud says about one cluster."""

    replicas: int | None = Field(None, ge=0, description="Replicas that exist.")
    ready_replicas: int | None = Field(None, ge=0, description="Replicas that are healthy.")
    unhealthy_replicas: int | None = Field(None, ge=0, description="Replicas that are not healthy.")
    selector: str | None = Field(None, max_length=512, description="Label selector, for the scale subresource.")
    replica_statuses: list[ReplicaStatus] | None = Field(
        None,
        max_length=SHOWN_REPLICAS,
        json_schema_extra=map_by("id"),
        description=f"The replicas, unhealthy ones first; at most {SHOWN_REPLICAS}.",
    )
    resource_size: str | None = Field(None, max_length=128, description="Size of each replica's machine.")
    tier: str | None = Field(None, max_length=64, description="Tier of capacity it has.")
    disk_size_gb: int | None = Field(None, ge=0, description="Disk of each replica in GB.")


class GpuCluster(Resource[GpuClusterSpec, GpuClusterStatus]):
    """One cluster."""

    kind: Literal["GpuCluster"] = "GpuCluster"
    status: GpuClusterStatus = Field(default_factory=GpuClusterStatus)


DEFINITION = Definition(
    kind="GpuCluster",
    plural="gpuclusters",
    short_name="gcl",
    spec=GpuClusterSpec,
    status=GpuClusterStatus,
    summary="Replicas of a container behind one HTTPS endpoint, scaled by kubectl scale, HPA or KEDA.",
    scale=Scale(".spec.replicas", ".status.replicas", ".status.selector"),
    columns=(
        Column("State", ".status.state"),
        Column("GPU", ".status.gpuModelId"),
        Column("Desired", ".spec.replicas", "integer"),
        Column("Healthy", ".status.readyReplicas", "integer"),
        READY,
        Column("Endpoint", ".status.endpointUrl"),
        Column("Cents/h", ".status.pricePerHourCents", "integer"),
        AGE,
        REASON,
        Column("ID", ".status.id", priority=1),
        Column("Image", ".spec.image", priority=1),
    ),
)
