"""Latencies and behaviours that `PATCH /_localcloud/settings` changes; stored with the state."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Latency = Annotated[float, Field(ge=0, le=31_536_000, allow_inf_nan=False)]
"""Seconds of the cloud's clock, at most a year."""


class Settings(BaseModel):
    """Every setting with its default; camelCase in JSON."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, strict=True, validate_by_name=True)

    placement_seconds: Latency = 1.0
    """From the create until the container starts."""
    start_seconds: Latency = 1.0
    """From the start of the container until `running`."""
    stop_seconds: Latency = 1.0
    """The duration of `stopping`; the GPUs are free after it."""
    interruption_grace_seconds: Latency = 180.0
    """How long a silent node may be silent before it is lost ("a few minutes", section 3)."""
    webhook_timeout_seconds: Annotated[float, Field(gt=0, le=300, allow_inf_nan=False)] = 10.0
    """How long a receiver may take, in real time."""
    batch_record_seconds: Latency = 0.1
    """The duration of one record of a batch."""
    rate_limit_per_second: Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)] | None = None
    """Requests per second of each organization in real time, if its quota `requestsPerSecond` allows as many.

    Null means that the quota alone counts, 0 that there is no limit per second, not even the quota.
    """
    key_requests_per_minute: Annotated[int, Field(ge=0, le=1_000_000_000)] = 120_000
    """Requests of one key, or of one user, to the management API in real time; 0 means no limit."""
    organization_requests_per_minute: Annotated[int, Field(ge=0, le=1_000_000_000)] = 240_000
    """Requests of one organization to the management API in real time; 0 means no limit."""
    capacity_status: Annotated[int, Field(ge=400, le=599)] = 503
    """The HTTP status of NODE_AT_CAPACITY and the INSUFFICIENT_*_CAPACITY codes, which section 7 does not show."""
    stalled_body_seconds: Annotated[float, Field(gt=0, le=300, allow_inf_nan=False)] = 30.0
    """How long a body may stand still, in real time: an upload is then answered 408, a download is cut off."""
    connections_per_address: Annotated[int, Field(ge=0, le=1_000_000)] = 1_000
    """Open connections of one address beyond loopback, over all ports; 0 means no limit."""
    max_concurrent_uploads: Annotated[int, Field(ge=0, le=10_000)] = 4
    allow_loopback_executors: bool = False
    inference_floor_cents: Annotated[int, Field(ge=-1_000_000_000, le=1_000_000_000)] | None = None
    """Overrides the organization's floor for inference; null leaves the organization's own."""
    cpu_slots: Annotated[int, Field(ge=0, le=1_000_000)] = 1_000
    """How many CPU VMs run at once before INSUFFICIENT_CPU_CAPACITY."""
    pending_deliveries: Annotated[int, Field(ge=0, le=10**9)] = 100_000
    """How many deliveries of one organization may wait or be under way; events beyond that are not delivered."""
    disk_reserve_bytes: Annotated[int, Field(ge=0, le=10**18)] = 64 * 1024 * 1024
    """Room on the disk of `--state` for stopping, ending and due items; with less free, all else is answered 503."""
    ip_addresses: Annotated[int, Field(ge=0, le=1_000_000)] = 100_000
    """How many pods, VMs and replicas there are at once before INSUFFICIENT_IP_CAPACITY."""
