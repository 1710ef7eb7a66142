"""Autoscaling inference clusters (section 2, "Cluster")."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from relay_wire.base import (
    LONGEST_SECRET,
    ClampedCount,
    Count,
    Identifier,
    Lenient,
    ListOf,
    Name,
    Page,
    Port,
    Received,
    ResourceId,
    Sent,
    SentList,
    Whole,
)
from relay_wire.catalog import GpuModel


class ClusterStatus(StrEnum):
    """Cluster states; section 3 shows running, degraded, failed, the others are assumed.

    A received status may be any other string.
    """

    PROVISIONING = "provisioning"
    RUNNING = "running"
    DEGRADED = "degraded"
    FAILED = "failed"
    STOPPING = "stopping"
    STOPPED = "stopped"
    TERMINATED = "terminated"


class ClusterCreate(Sent):
    """Create cluster request (section 2, "Cluster"); the minimum of one replica is assumed."""

    name: Name
    resource_size: str | None = None
    tier: str | None = None
    replica_count: int | None = Field(default=None, ge=1)
    gpu_model_id: str | None = None
    gpus_per_replica: int | None = None
    image_url: str | None = None
    container_port: Port | None = None
    preferred_regions: SentList[str] | None = None
    allow_fallback: bool | None = None
    env_vars: dict[str, str] | None = Field(default=None, repr=False)
    registry_credential_id: str | None = None
    health_checks: SentList[str] | None = None
    health_check_path: str | None = None
    health_check_port: Port | None = None
    disk_size_gb: int | None = None
    container_command: SentList[str] | None = None
    privileged: bool | None = None
    kernel_modules: SentList[str] | None = None
    template_id: str | None = None


class ClusterScale(Sent):
    """Scale request (section 2, "Cluster"); the minimum of one replica is assumed."""

    replica_count: int = Field(ge=1)


class ClusterSummary(Received):
    """A cluster as lists show it (section 2, "Cluster")."""

    id: ResourceId
    organization_id: str
    name: str
    status: str
    active_replicas: Lenient[Count] = None
    replica_count: Lenient[Count] = None
    endpoint_url: Lenient[str] = None
    gpu_model_id: Lenient[str] = None
    created_at: Lenient[str] = None


class Replica(Received):
    """One replica of a cluster (section 2, "Cluster")."""

    id: Identifier
    gpu_count: ClampedCount
    status: str  # healthy, unhealthy, terminated, or any other string
    healthy: bool
    nvlink_enabled: bool
    created_at: str
    consecutive_failures: Lenient[Count] = None
    disk_total_bytes: Lenient[Whole] = None
    disk_used_bytes: Lenient[Whole] = None
    disk_updated_at: Lenient[str] = None
    endpoint_url: Lenient[str] = None
    internal_ip: Lenient[str] = None
    last_health_check_at: Lenient[str] = None
    node_hostname: Lenient[str] = None
    node_id: Lenient[str] = None
    node_location: Lenient[str] = None
    node_region: Lenient[str] = None
    port: Lenient[Count] = None
    ssh_port: Lenient[Count] = None
    started_at: Lenient[str] = None


class ClusterDetail(Received):
    """A cluster with its replicas and GPU model (section 2, "Cluster")."""

    id: ResourceId
    organization_id: str
    name: str
    status: str
    gpus_per_replica: ClampedCount
    resource_size: str
    replica_count: ClampedCount
    tier: str
    allow_fallback: bool
    disk_size_gb: ClampedCount
    privileged: bool
    replicas: ListOf[Replica]
    created_at: str
    updated_at: str
    status_reason: Lenient[str] = None
    deploy_token: Lenient[Annotated[str, Field(max_length=LONGEST_SECRET)]] = Field(default=None, repr=False)
    endpoint_url: Lenient[str] = None
    env_vars: Lenient[dict[str, str]] = Field(default=None, repr=False)
    gpu_model: Lenient[GpuModel] = None
    gpu_model_id: Lenient[str] = None
    health_check_path: Lenient[str] = None
    health_check_port: Lenient[Count] = None
    health_checks: Lenient[list[str]] = None
    image_url: Lenient[str] = None
    notes: Lenient[str] = None
    preferred_regions: Lenient[list[str]] = None
    container_port: Lenient[Count] = None


ClusterPage = Page[ClusterSummary]
