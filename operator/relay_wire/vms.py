"""GPU virtual machines, and the record that pods share with them (section 2, "VM")."""

from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field

from relay_wire.base import Count, Lenient, Name, Page, Port, Price, Received, ResourceId, Sent, SentList, Word


class VmStatus(StrEnum):
    """VM states; section 3 shows `running` and `failed`, the others are assumed.

    A received status may be any other string.
    """

    PROVISIONING = "provisioning"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"
    TERMINATED = "terminated"


class VmRecord(Received):
    """A VM or a pod; only a malformed id makes an answer unreadable (section 2, "VM")."""

    id: ResourceId
    organization_id: Lenient[str] = None
    name: Word = ""
    status: Word = ""
    status_reason: Lenient[str] = None
    gpu_model_id: Lenient[str] = None
    gpu_count: Lenient[Count] = None
    endpoint_url: Lenient[str] = None  # production VMs: `https://<port>-<host>/`
    volume_gb: Lenient[Count] = None
    public: Lenient[bool] = None
    created_at: Lenient[str] = None
    provisioning_stage: Lenient[str] = None
    resource_size: Lenient[str] = None
    tier: Lenient[str] = None
    disk_size_gb: Lenient[Count] = None
    gpu_model_name: Lenient[str] = None
    price_per_hour_cents: Lenient[Price] = None  # of the whole workload
    service_type: Lenient[str] = None
    managed_by: Lenient[str] = None
    capability_tier: Lenient[str] = None
    compute_class: Lenient[str] = None
    image_url: Lenient[str] = None


class EndedSpotVm(Received):
    """A terminated spot VM of another organization, as the owner of the lent capacity sees it; assumed."""

    id: ResourceId
    status: Word = ""
    status_reason: Lenient[str] = None
    tier: Lenient[str] = None


class CreatedResource(Received):
    """The answer to a create (section 2, "VM"); only a malformed id makes it unreadable."""

    id: ResourceId
    name: Word = ""
    status: Word = ""


def _shebang(script: str) -> str:
    if not script.startswith("#!"):
        raise ValueError("must begin with a shebang such as #!/bin/sh; a raw cloud-config document is not accepted")
    return script


class VmCreate(Sent):
    """Create VM request (section 2, "VM")."""

    name: Name
    gpu_model_id: str | None = None
    gpu_count: int | None = None
    resource_size: str | None = None
    tier: str | None = None
    image_url: str | None = None
    container_port: Port | None = None
    container_command: SentList[str] | None = None
    env_vars: dict[str, str] | None = Field(default=None, repr=False)
    disk_size_gb: int | None = None
    health_check_path: str | None = None
    health_check_port: Port | None = None
    health_checks: SentList[str] | None = None
    preferred_regions: SentList[str] | None = None
    allow_fallback: bool | None = None
    privileged: bool | None = None
    kernel_modules: SentList[str] | None = None
    registry_credential_id: str | None = None
    template_id: str | None = None
    ssh_key_ids: SentList[str] | None = None
    public: bool = False
    node_id: str | None = None
    cloud_init: Annotated[str, Field(max_length=16384), AfterValidator(_shebang)] | None = Field(
        default=None, repr=False
    )


class Visibility(Sent):
    """Opens or closes the endpoint of a VM or pod; assumed, since section 4 does not show the request."""

    public: bool


VmPage = Page[VmRecord]
