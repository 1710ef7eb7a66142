"""Bring-your-own-container GPU pods (section 2, "Pod"; section 3, "Pod status").

Answers about pods are `relay_wire.vms.VmRecord`s.
"""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from relay_wire.base import (
    ClampedCount,
    Identifier,
    Lenient,
    Name,
    NonEmpty,
    Page,
    Port,
    Price,
    Received,
    Sent,
    SentList,
)


class PodStatus(StrEnum):
    """The pod states of section 3, including `failed` and the assumed `stopping`.

    A received status may be any other string.
    """

    DEPLOYING = "deploying"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    TERMINATED = "terminated"


class PodCreate(Sent):
    """Create pod request (section 2, "Pod").

    `interruptible` is valid here: the cloud refuses it with its own code, COMPUTE_CLASS_RETIRED.
    """

    image: NonEmpty
    name: Name | None = None
    gpu_model_id: str | None = None
    gpu_count: int = Field(default=1, ge=1, le=8)
    compute_class: Literal["on_demand", "reserved", "interruptible"] = "on_demand"
    http_port: Port = 80
    public: bool = False
    env_vars: dict[str, str] | None = Field(default=None, repr=False)
    ssh_keys: SentList[str] | None = None
    shm_size_gb: int | None = Field(default=None, ge=1, le=8192)  # GiB; absent: the platform chooses
    volume_gb: int = Field(default=50, ge=10, le=1024)


class PodCapacity(Received):
    """What is available of one GPU model now; section 4 names only `freeUnits` and `maxGpuCount`."""

    gpu_model_id: Identifier
    name: Lenient[str] = None
    free_units: ClampedCount  # over all nodes
    max_gpu_count: ClampedCount  # the largest single allocation
    price_per_hour_cents: Lenient[Price] = None  # per GPU


PodCapacityList = Page[PodCapacity]
