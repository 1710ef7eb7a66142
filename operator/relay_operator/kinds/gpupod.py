"""GpuPod: one container with its volume on GPUs of one node (section 2, "Pod"; section 3, "Pod status")."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, WithJsonSchema

from relay_operator.api.definition import AGE, READY, REASON, Column, Definition
from relay_operator.api.meta import Resource
from relay_operator.api.parts import Gpu, Image, Port
from relay_operator.api.references import ValueSource
from relay_operator.api.schema import as_set, atomic, field_rules, rules
from relay_operator.api.workload import SAME_ACCOUNT, CommonStatus, WorkloadSpec

# Not an enum in the schema: the API server checks no rule where an enum fails, and the rule has the better sentence.
OPEN_WORD = WithJsonSchema({"type": "string", "maxLength": 32})


class ComputeClass(StrEnum):
    """How capacity is sold; `interruptible` was retired by the cloud."""

    ON_DEMAND = "OnDemand"
    RESERVED = "Reserved"


class GpuPodSpec(WorkloadSpec):
    """What is asked of one pod."""

    model_config = rules(SAME_ACCOUNT)

    image: Image = Field(description="Container image.")
    gpu: Gpu | None = Field(None, description="Which GPUs, and how many. Absent: one, of the cloud's choice.")
    compute_class: Annotated[ComputeClass, OPEN_WORD] = Field(
        ComputeClass.ON_DEMAND,
        json_schema_extra=field_rules(
            (
                "self.lowerAscii() != 'interruptible'",
                "the cloud retired interruptible pods (COMPUTE_CLASS_RETIRED): leave computeClass out, or set OnDemand",
            ),
            (
                "self in ['OnDemand', 'Reserved'] || self.lowerAscii() == 'interruptible'",
                "computeClass is OnDemand, the only class sold, or its deprecated alias Reserved",
            ),
        ),
        description="OnDemand is the only class sold; Reserved is a deprecated alias of it.",
    )
    http_port: Port = Field(80, description="HTTP port of the container that the endpoint shows.")
    public: bool = Field(
        False, description="Whether the endpoint is open to anybody; otherwise it asks for the account's key."
    )
    ssh_keys: list[Annotated[str, Field(min_length=1, max_length=16_384)]] | None = Field(
        None,
        max_length=64,
        json_schema_extra=as_set(),
        description="Public keys put into the container. For the SSH gateway a key must also be registered with the "
        "organization.",
    )
    ssh_key_refs: list[ValueSource] | None = Field(
        None,
        max_length=64,
        json_schema_extra=atomic(),
        description="Public keys read from Secrets or ConfigMaps when the pod is created.",
    )
    shm_size_gb: int | None = Field(
        None, ge=1, le=8192, description="Shared memory in GiB; absent: the platform chooses."
    )
    volume_gb: int = Field(
        50, ge=10, le=1024, description="Volume at /workspace in GB; fixed for the pod's life, no separate charge."
    )


class GpuPodStatus(CommonStatus):
    """What the cloud says about one pod."""

    volume_gb: int | None = Field(None, ge=0, description="Size of its volume in GB.")
    public: bool | None = Field(None, description="Whether the endpoint is open to anybody.")
    provisioning_stage: str | None = Field(None, max_length=128, description="How far the cloud is with placing it.")


class GpuPod(Resource[GpuPodSpec, GpuPodStatus]):
    """One GPU pod."""

    kind: Literal["GpuPod"] = "GpuPod"
    status: GpuPodStatus = Field(default_factory=GpuPodStatus)


DEFINITION = Definition(
    kind="GpuPod",
    plural="gpupods",
    short_name="gpod",
    spec=GpuPodSpec,
    status=GpuPodStatus,
    summary="A container with a persistent volume on GPUs of one node, and an HTTPS endpoint.",
    columns=(
        Column("State", ".status.state"),
        Column("GPU", ".status.gpuModelId"),
        READY,
        Column("Endpoint", ".status.endpointUrl"),
        Column("Cents/h", ".status.pricePerHourCents", "integer"),
        AGE,
        REASON,
        Column("ID", ".status.id", priority=1),
        Column("Image", ".spec.image", priority=1),
    ),
)
