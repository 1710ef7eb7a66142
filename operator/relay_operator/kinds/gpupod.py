"""GpuPod: one container with its volume on GPUs of one node (section 2, "Pod"; section 3, "Pod status")."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, JsonValue, WithJsonSchema

from relay_client import Cloud, operations
from relay_operator.api.definition import READY, definition_of
from relay_operator.api.meta import CreateIntent, ObjectKey, Resource
from relay_operator.api.parts import Image, PodGpu, Port
from relay_operator.api.public_keys import NO_PRIVATE_KEY
from relay_operator.api.references import REFERENCES, SshKeyRef, ValueSource
from relay_operator.api.schema import as_set, atomic, field_rules, rules
from relay_operator.api.workload import FIRST_COLUMNS, LAST_COLUMNS, SAME_ACCOUNT, WorkloadSpec
from relay_operator.budgets.prices import Capacity
from relay_operator.flows.managed.resource import Change, InputRefs, Inputs
from relay_operator.kinds.comparison import as_written, differing, env_fields, texts
from relay_operator.kinds.machines import MIRRORED, POD, VM, Machines, MachineStatus
from relay_wire.pods import PodCreate
from relay_wire.vms import VmRecord

# Not an enum in the schema: the API server skips rules where an enum fails, and the rule has the better message.
OPEN_WORD = WithJsonSchema({"type": "string", "maxLength": 32})


class ComputeClass(StrEnum):
    """How capacity is sold; the cloud retired `interruptible`."""

    ON_DEMAND = "OnDemand"
    RESERVED = "Reserved"


class GpuPodSpec(WorkloadSpec):
    """The desired state of one pod."""

    model_config = rules(SAME_ACCOUNT)

    image: Image = Field(description="Container image.")
    gpu: PodGpu | None = Field(None, description="Which GPUs, and how many. Absent: one, of the cloud's choice.")
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
        False, description="Whether the endpoint is open to anybody; otherwise it requires the account's key."
    )
    ssh_keys: (
        list[Annotated[str, Field(min_length=1, max_length=16_384, json_schema_extra=field_rules(NO_PRIVATE_KEY))]]
        | None
    ) = Field(
        None,
        max_length=64,
        json_schema_extra=as_set(),
        description="Public keys put into the container. For the SSH gateway a key must also be registered with the "
        "organization.",
    )
    ssh_keys_from: list[ValueSource] | None = Field(
        None,
        max_length=64,
        json_schema_extra=atomic(),
        description="The same, read from Secrets or ConfigMaps when the pod is created.",
    )
    ssh_key_refs: list[SshKeyRef] | None = Field(
        None,
        max_length=64,
        json_schema_extra=atomic(),
        description="SshKeys of this namespace: their public keys are put into the container, and are registered.",
    )
    shm_size_gb: int | None = Field(
        None, ge=1, le=8192, description="Shared memory in GiB; absent: the platform chooses."
    )
    volume_gb: int = Field(
        50, ge=10, le=1024, description="Volume at /workspace in GB; fixed for the pod's life, no separate charge."
    )


class GpuPodStatus(MachineStatus):
    """What the cloud says about one pod."""

    volume_gb: int | None = Field(None, ge=0, description="Size of its volume in GB.")


class GpuPod(Resource[GpuPodSpec, GpuPodStatus]):
    """One GPU pod."""

    kind: Literal["GpuPod"] = "GpuPod"


DEFINITION = definition_of(
    GpuPod,
    "gpod",
    summary="A container with a persistent volume on GPUs of one node, and an HTTPS endpoint.",
    columns=(*FIRST_COLUMNS, READY, *LAST_COLUMNS),
)


Pod: TypeAlias = Resource[GpuPodSpec, GpuPodStatus]

_COMPUTE_CLASSES: Mapping[ComputeClass, Literal["on_demand", "reserved"]] = {
    ComputeClass.ON_DEMAND: "on_demand",
    ComputeClass.RESERVED: "reserved",
}


class GpuPods(Machines[GpuPodSpec, GpuPodStatus]):
    """How a GpuPod maps to a pod of the cloud (sections 3 and 4)."""

    definition = DEFINITION
    model = GpuPod
    others = VM
    retention = timedelta(days=7)
    mirrored = (*MIRRORED, "volume_gb")

    def shown_in(self, listed: Iterable[VmRecord]) -> bool:
        """Whether one of them is a pod: no description says that a list of VMs shows pods."""
        return any(record.service_type == POD for record in listed)

    async def create(self, cloud: Cloud, obj: Pod, intent: CreateIntent, inputs: Inputs) -> VmRecord:
        spec = obj.spec
        request = PodCreate(
            image=spec.image,
            name=intent.name,
            gpu_model_id=inputs.model_id or None,
            gpu_count=_gpu_count(spec),
            compute_class=_COMPUTE_CLASSES[spec.compute_class],
            http_port=spec.http_port,
            public=spec.public,
            env_vars=dict(inputs.env) or None,
            ssh_keys=[*(spec.ssh_keys or ()), *inputs.ssh_keys] or None,
            shm_size_gb=spec.shm_size_gb,
            volume_gb=spec.volume_gb,
        )
        return await cloud.call(operations.CREATE_POD, request)

    def immutable(self, obj: Pod) -> Mapping[str, JsonValue]:
        spec = obj.spec
        return {
            "image": spec.image,
            "gpu.count": _gpu_count(spec),
            "httpPort": spec.http_port,
            "shmSizeGb": spec.shm_size_gb,
            "volumeGb": spec.volume_gb,
            **env_fields(spec),
            "sshKeys": texts(sorted(spec.ssh_keys or ())),
            "sshKeysFrom": _as_written(spec.ssh_keys_from or ()),
            "sshKeyRefs": [*_as_written(_former(spec)), *sorted(key.name for key in _keys(obj))],
        }

    def capacity(self, obj: Pod, model_id: str) -> Capacity:
        return Capacity(model_id, _gpu_count(obj.spec))

    def models(self, obj: Pod) -> tuple[str, ...]:
        return obj.spec.gpu.candidates if obj.spec.gpu is not None else ()

    def input_refs(self, obj: Pod) -> InputRefs:
        spec = obj.spec
        sources = (*_former(spec), *(spec.ssh_keys_from or ()))
        return InputRefs(spec.env or (), spec.env_from or (), sources, registered=_keys(obj))

    def references(self, obj: Pod) -> tuple[ObjectKey, ...]:
        return _keys(obj)

    def giving(self, obj: Pod, observed: VmRecord, ids: Mapping[ObjectKey, str]) -> tuple[Change, ...]:
        """Empty: the cloud cannot change a container that runs."""
        return ()

    def differences(self, obj: Pod, observed: VmRecord) -> tuple[str, ...]:
        spec = obj.spec
        return self.of_the_other_kind(observed) + differing(
            ("image", spec.image, observed.image_url),
            ("gpu.count", _gpu_count(spec), observed.gpu_count),
            ("volumeGb", spec.volume_gb, observed.volume_gb),
            ("gpu.modelIds", self.models(obj), observed.gpu_model_id),
        )

    def told(self, obj: Pod, observed: VmRecord) -> Mapping[str, object]:
        gpus = _gpu_count(obj.spec) if observed.gpu_count is None else observed.gpu_count
        return {**super().told(obj, observed), "gpu_count": gpus}

    def changes(self, obj: Pod, observed: VmRecord, *, running: bool) -> tuple[Change, ...]:
        return self.visibility(observed, public=obj.spec.public)


def _gpu_count(spec: GpuPodSpec) -> int:
    return spec.gpu.count if spec.gpu is not None else 1


def _keys(obj: Pod) -> tuple[ObjectKey, ...]:
    refs, namespace = obj.spec.ssh_key_refs or (), obj.metadata.namespace
    return tuple(ObjectKey(REFERENCES["sshKeyRefs"], namespace, ref.name) for ref in refs if ref.name is not None)


def _former(spec: GpuPodSpec) -> tuple[ValueSource, ...]:
    """The entries in the former spelling of `sshKeysFrom`."""
    return tuple(ref for ref in spec.ssh_key_refs or () if ref.name is None)


def _as_written(sources: Sequence[ValueSource]) -> list[JsonValue]:
    return [as_written(source) for source in sources]
