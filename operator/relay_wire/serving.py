"""Serving deployments: engines on GPUs behind a model of the catalog (section 2, "Serving deployment")."""

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from relay_wire.base import (
    Count,
    Identifier,
    Lenient,
    ListOf,
    NonEmpty,
    Page,
    Price,
    Printable,
    Received,
    ResourceId,
    Sent,
)
from relay_wire.base import Word as Said
from relay_wire.inference import MOST, NativeFamily

Engine = Literal["vllm", "sglang", "trtllm"]
"""The known engines (assumed; section 2 says only that an engine must resolve to a known one)."""

RolloutStrategy = Literal["blue_green", "rolling"]
GREEN: Final = "green"

AtLeastOne = Annotated[int, Field(ge=1, le=MOST)]
Word = Annotated[str, Field(max_length=200)]
Reference = Annotated[str, Field(max_length=2000)]


class DeploymentStatus(StrEnum):
    """States of a deployment, all assumed, since section 3 shows none. A received status may be any other string."""

    PROVISIONING = "provisioning"
    RUNNING = "running"
    DEGRADED = "degraded"
    IDLE = "idle"
    STOPPED = "stopped"
    DRAINING = "draining"


def _chat_completions() -> list[NativeFamily]:
    return ["chat_completions"]


class EngineSettings(Sent):
    """The settings that a replica starts with; after a change of one, another replica replaces it."""

    version: Word | None = None
    dtype: Word | None = None
    quantization: Word | None = None
    max_model_len: AtLeastOne | None = None
    engine_image: Reference | None = None
    env: Annotated[dict[str, str], Field(max_length=1000)] | None = Field(default=None, repr=False)
    extra_args: Annotated[list[str], Field(max_length=1000)] | None = Field(default=None, repr=False)
    weights_ref: Reference | None = None


class DeploymentCreate(EngineSettings):
    """Create request (section 2, "Serving deployment"); bounds that section 2 does not give are assumed."""

    organization_id: Identifier
    public_model_id: NonEmpty
    engine: Engine
    served_model_id: NonEmpty
    gpu_model_id: NonEmpty
    gpu_count_per_replica: AtLeastOne
    replicas_min: Count
    replicas_max: AtLeastOne
    replicas_desired: Count
    native_families: Annotated[list[NativeFamily], Field(min_length=1)] = Field(default_factory=_chat_completions)
    max_concurrency_per_replica: Count = 0  # 0: no cap
    backend_weight: Count = 0  # 0: standby
    node_pool: Annotated[str, Field(max_length=63), Printable] | None = None
    min_prompt_bytes: Count = 0  # inclusive; 0: unbounded
    max_prompt_bytes: Count = 0  # exclusive; 0: unbounded
    isolated: bool = False
    replica_runtime: Literal["", "vm", "pod"] = ""
    rollout_role: Literal["", "green"] = ""
    rollout_strategy: RolloutStrategy = "blue_green"
    max_unavailable: AtLeastOne = 1  # for rolling; blue/green ignores it
    acknowledge_lane_join: bool = False


LASTING: Final = frozenset(
    {
        "organizationId",
        "publicModelId",
        "engine",
        "servedModelId",
        "gpuModelId",
        "gpuCountPerReplica",
        "nativeFamilies",
        "nodePool",
        "minPromptBytes",
        "maxPromptBytes",
        "isolated",
        "replicaRuntime",
    }
)
"""The fields that a deployment keeps for its life (assumed)."""


class DeploymentChange(EngineSettings):
    """Change request (assumed): absent fields stay; an empty `rolloutRole` promotes a green deployment."""

    replicas_min: Count | None = None
    replicas_max: AtLeastOne | None = None
    replicas_desired: Count | None = None
    max_concurrency_per_replica: Count | None = None
    backend_weight: Count | None = None
    rollout_role: Literal["", "green"] | None = None
    rollout_strategy: RolloutStrategy | None = None
    max_unavailable: AtLeastOne | None = None

    @model_validator(mode="before")
    @classmethod
    def _lasting_is_lasting(cls, data: object) -> object:
        named = sorted(LASTING.intersection(data)) if isinstance(data, dict) else []
        if named:
            raise ValueError(f"{named[0]} cannot be changed: make another deployment and delete this one")
        return data


class ServingReplica(Received):
    """One replica of a deployment."""

    id: Identifier
    status: Said = ""
    healthy: Lenient[bool] = None
    gpu_count: Lenient[Count] = None
    node_id: Lenient[str] = None
    engine_image: Lenient[str] = None
    created_at: Lenient[str] = None
    started_at: Lenient[str] = None


class Deployment(Received):
    """A serving deployment (section 2 shows its fields; the rest is assumed)."""

    id: ResourceId
    organization_id: Lenient[str] = None
    public_model_id: Lenient[str] = None
    engine: Lenient[str] = None
    served_model_id: Lenient[str] = None
    gpu_model_id: Lenient[str] = None
    gpu_count_per_replica: Lenient[Count] = None
    replicas_min: Lenient[Count] = None
    replicas_max: Lenient[Count] = None
    replicas_desired: Lenient[Count] = None
    version: Lenient[str] = None
    dtype: Lenient[str] = None
    quantization: Lenient[str] = None
    max_model_len: Lenient[Count] = None
    engine_image: Lenient[str] = None
    env: Lenient[dict[str, str]] = Field(default=None, repr=False)
    extra_args: Lenient[list[str]] = Field(default=None, repr=False)
    weights_ref: Lenient[str] = None
    native_families: Lenient[list[str]] = None
    max_concurrency_per_replica: Lenient[Count] = None
    backend_weight: Lenient[Count] = None
    node_pool: Lenient[str] = None
    min_prompt_bytes: Lenient[Count] = None
    max_prompt_bytes: Lenient[Count] = None
    isolated: Lenient[bool] = None
    replica_runtime: Lenient[str] = None
    rollout_role: Lenient[str] = None
    rollout_strategy: Lenient[str] = None
    max_unavailable: Lenient[Count] = None
    status: Said = ""
    status_reason: Lenient[str] = None
    replicas_ready: Lenient[Count] = None
    price_per_hour_cents: Lenient[Price] = None  # of one replica
    replicas: ListOf[ServingReplica] = Field(default_factory=list)
    created_at: Lenient[str] = None
    updated_at: Lenient[str] = None


DeploymentPage = Page[Deployment]
