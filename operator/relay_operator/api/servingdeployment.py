"""ServingDeployment: replicas of an engine behind a model of the catalog (section 2, "Serving deployment")."""

from enum import StrEnum
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from relay_operator.api.definition import AGE, ID, READY, REASON, Column, definition_of
from relay_operator.api.inferencebackend import NativeFamily
from relay_operator.api.meta import Model, Resource
from relay_operator.api.parts import EnvVar, ReplicaGpu
from relay_operator.api.schema import as_set, atomic, field_rules, map_by, rules
from relay_operator.api.workload import NEVER_STOPPED, SAME_ACCOUNT, PricedSpec, PricedStatus
from relay_wire.inference import CatalogModel

MAX_REPLICAS = 1000
SHOWN_MEMBERS = 32
_MOST = 2**31 - 1
_PUBLISHED = (
    "!has(self.isolated) || !self.isolated || !has(self.backendWeight) || self.backendWeight == 0",
    "an isolated deployment gets no traffic: leave out backendWeight or isolated",
)
_NO_GREEN = (
    "!has(self.isolated) || !self.isolated || !has(self.rollout) || !has(self.rollout.role) || self.rollout.role == ''",
    "an isolated deployment is in no lane and replaces nothing: leave out rollout.role or isolated",
)
_POD_HAS_WEIGHTS = (
    "!has(self.replicaRuntime) || self.replicaRuntime != 'pod' || has(self.weightsRef)",
    "replicaRuntime: pod needs weightsRef",
)
_Word: TypeAlias = Annotated[str, Field(min_length=1, max_length=200)]
_Reference: TypeAlias = Annotated[str, Field(min_length=1, max_length=2000, pattern=r"^\S+$")]
_Count: TypeAlias = Annotated[int, Field(ge=0, le=_MOST)]
_Replicas: TypeAlias = Annotated[int, Field(ge=0, le=MAX_REPLICAS)]


class Engine(StrEnum):
    """The inference engine, by the cloud's names."""

    VLLM = "vllm"
    SGLANG = "sglang"
    TRTLLM = "trtllm"


class Runtime(StrEnum):
    """What a replica runs in, by the cloud's names; empty: the cloud chooses."""

    ANY = ""
    VM = "vm"
    POD = "pod"


class Role(StrEnum):
    """Whether a deployment is an ordinary member of its lane or is to replace the others, by the cloud's names."""

    MEMBER = ""
    GREEN = "green"


class Strategy(StrEnum):
    """How a change rolls out, by the cloud's names."""

    BLUE_GREEN = "blue_green"
    ROLLING = "rolling"


class Replicas(Model):
    """The number of replicas, and its bounds."""

    model_config = rules(("self.min <= self.max", "replicas.min cannot be above replicas.max"))

    min: _Replicas = Field(description="The smallest number of replicas that may be desired.")
    max: int = Field(ge=1, le=MAX_REPLICAS, description="The largest number of replicas that may be desired.")
    desired: _Replicas = Field(
        description="The desired number of replicas, from min to max; `kubectl scale` changes it. Outside these "
        "bounds nothing is scaled, and the object says so."
    )


class Rollout(Model):
    """How this deployment rolls out and replaces another version."""

    role: Role = Field(
        Role.MEMBER,
        description="green: it starts beside the members of its lane, without traffic, to replace them; removing "
        "the role promotes it once all its replicas are healthy. Empty: an ordinary member of its lane.",
    )
    strategy: Strategy = Field(
        Strategy.BLUE_GREEN,
        description="blue_green: a green deployment replaces what the replicas run. rolling: it is changed in "
        "place, some replicas at a time.",
    )
    max_unavailable: int = Field(
        1, ge=1, le=_MOST, description="With rolling: replicas that may be away at a time; 1 by default."
    )


class PromptBytes(Model):
    """Which sizes of prompt the deployment takes."""

    model_config = rules(
        (
            "!has(self.max) || self.max == 0 || !has(self.min) || self.min < self.max",
            "promptBytes.min must be below promptBytes.max",
        )
    )

    min: _Count = Field(0, description="Bytes of the smallest prompt; 0: any.")
    max: _Count = Field(0, description="Bytes from which a prompt is too large; 0: none is.")


class ServingDeploymentSpec(PricedSpec):
    """Which model, on what hardware, and with how much of the traffic."""

    model_config = rules(SAME_ACCOUNT, NEVER_STOPPED, _PUBLISHED, _NO_GREEN, _POD_HAS_WEIGHTS)

    public_model_id: CatalogModel = Field(description="The model of the catalog that it answers for.")
    engine: Engine = Field(description="What runs the model: vllm, sglang or trtllm.")
    served_model_id: str = Field(
        min_length=1, max_length=2000, description="What the engine calls the model: the `ref` of a backend of it."
    )
    gpu: ReplicaGpu = Field(
        json_schema_extra=field_rules(
            ("has(self.modelId) || has(self.modelIds)", "set gpu.modelId or gpu.modelIds (tried in order)")
        ),
        description="Which GPUs each replica has, and how many.",
    )
    replicas: Replicas = Field(description="How many replicas, and between which bounds.")
    rollout: Rollout = Field(default_factory=Rollout, description="How another version takes the place of this one.")
    backend_weight: _Count | None = Field(
        None,
        description="Its share of the traffic, beside the weights of its lane's other members; 0: standby. A green has "
        "none until it runs. Absent: standby at first, then left as it is.",
    )
    node_pool: str | None = Field(
        None, min_length=1, max_length=63, pattern=r"^[!-~]+$", description="The capacity lane; community by default."
    )
    prompt_bytes: PromptBytes = Field(
        default_factory=PromptBytes, description="The sizes of the prompts that it takes; any by default."
    )
    isolated: bool = Field(False, description="Whether it is never sent any of the model's traffic.")
    acknowledge_lane_join: bool = Field(
        False, description="Whether it may join a lane that has live deployments; else the cloud refuses it."
    )
    replica_runtime: Runtime = Field(Runtime.ANY, description="What a replica is: vm or pod; the cloud chooses.")
    native_families: list[NativeFamily] | None = Field(
        None,
        min_length=1,
        max_length=2,
        json_schema_extra=as_set(),
        description="The APIs that it speaks: chat_completions and messages. Absent: chat_completions.",
    )
    max_concurrency_per_replica: _Count = Field(
        0, description="Requests that each replica takes at once; 0: any number."
    )
    version: _Word | None = Field(None, description="Version of the engine.")
    dtype: _Word | None = Field(None, description="Type of the weights in memory.")
    quantization: _Word | None = Field(None, description="How the weights are quantized.")
    max_model_len: int | None = Field(None, ge=1, le=_MOST, description="Tokens of the longest context.")
    engine_image: _Reference | None = Field(None, description="Container image of the engine.")
    weights_ref: _Reference | None = Field(None, description="Where the weights are.")
    extra_args: list[Annotated[str, Field(max_length=4096)]] | None = Field(
        None, max_length=1000, json_schema_extra=atomic(), description="Further arguments of the engine."
    )
    env: list[EnvVar] | None = Field(
        None,
        max_length=256,
        repr=False,
        json_schema_extra=map_by("name"),
        description="Environment variables of the engine.",
    )


class LaneMember(Model):
    """A deployment of the same lane."""

    id: str = Field(min_length=1, max_length=253, description="The cloud's identifier.")
    backend_weight: int = Field(ge=0, description="Its share of the lane's traffic.")
    rollout_role: str = Field("", max_length=64, description="green, if it is to replace the others.")
    state: str = Field(max_length=64, description="The cloud's word for its state.")


class Lane(Model):
    """Deployments with the same model, pool and prompt sizes."""

    node_pool: str = Field(max_length=63, description="The pool.")
    min_prompt_bytes: int = Field(ge=0, description="The smallest prompt.")
    max_prompt_bytes: int = Field(ge=0, description="The size that is too large; 0: none is.")
    members: list[LaneMember] = Field(
        max_length=SHOWN_MEMBERS,
        json_schema_extra=map_by("id"),
        description=f"The organization's live deployments in it, this one included; at most {SHOWN_MEMBERS}.",
    )


class ServingDeploymentStatus(PricedStatus):
    """What the cloud says about one deployment."""

    replicas: int | None = Field(None, ge=0, le=_MOST, description="Replicas that exist.")
    desired_replicas: int | None = Field(None, ge=0, le=_MOST, description="Replicas that the cloud was asked for.")
    ready_replicas: int | None = Field(None, ge=0, description="Replicas that are healthy.")
    selector: str | None = Field(None, max_length=512, description="Label selector, for the scale subresource.")
    gpu_model_id: str | None = Field(None, max_length=128, description="The GPU model it got.")
    gpu_count: int | None = Field(None, ge=0, description="GPUs of each replica.")
    backend_weight: int | None = Field(None, ge=0, description="Its weight in the lane.")
    rollout_role: str | None = Field(None, max_length=64, description="green until it is promoted.")
    lane: Lane | None = Field(None, description="Its lane; absent if it is isolated or drains.")
    traffic_percent: int | None = Field(
        None, ge=0, le=100, description="Its share of the weights of `lane.members`, rounded down."
    )


class ServingDeployment(Resource[ServingDeploymentSpec, ServingDeploymentStatus]):
    """One deployment."""

    kind: Literal["ServingDeployment"] = "ServingDeployment"


DEFINITION = definition_of(
    ServingDeployment,
    "sdep",
    summary="Replicas of an engine behind a model of the catalog, scaled by kubectl scale, HPA or KEDA.",
    scaled_by=".spec.replicas.desired",
    columns=(
        Column("State", ".status.state"),
        Column("Model", ".spec.publicModelId"),
        Column("GPU", ".status.gpuModelId"),
        Column("Desired", ".spec.replicas.desired", "integer"),
        Column("Healthy", ".status.readyReplicas", "integer"),
        Column("Traffic", ".status.trafficPercent", "integer"),
        READY,
        Column("Cents/h", ".status.pricePerHourCents", "integer"),
        AGE,
        REASON,
        ID,
    ),
)

Serving: TypeAlias = Resource[ServingDeploymentSpec, ServingDeploymentStatus]
