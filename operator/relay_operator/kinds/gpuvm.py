"""GpuVm: a virtual machine, with or without GPUs, and with a container if it names an image (section 2, "VM")."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from pydantic import Field, JsonValue

from relay_client import Cloud, operations
from relay_operator.api.conditions import Reason
from relay_operator.api.definition import READY, Column, definition_of
from relay_operator.api.meta import CreateIntent, ObjectKey, Resource
from relay_operator.api.parts import Gpu
from relay_operator.api.references import REFERENCES, HeldReference, LocalRef, ValueSource
from relay_operator.api.schema import field_rules, map_by, rules
from relay_operator.api.workload import FIRST_COLUMNS, LAST_COLUMNS, SAME_ACCOUNT
from relay_operator.budgets.prices import Capacity
from relay_operator.flows.managed.resource import Change, InputRefs, Inputs
from relay_operator.kinds.comparison import as_written, differing, same_named
from relay_operator.kinds.container import ONE_CREDENTIAL, ContainerSpec, credential, requested, unchangeable
from relay_operator.kinds.machines import MIRRORED, POD, Machines, MachineStatus
from relay_wire.ssh_keys import SshKeyAttach
from relay_wire.vms import VmCreate, VmRecord

LONGEST_SCRIPT = 16_384
SSH_KEY = REFERENCES["sshKeyRefs"]
_MACHINE = ("resource_size", "tier", "disk_size_gb")
_NO_SHEBANG = "must begin with a shebang such as #!/bin/sh; the cloud does not take a raw cloud-config document"


class GpuVmSpec(ContainerSpec):
    """The desired state of one VM."""

    model_config = rules(
        SAME_ACCOUNT,
        ONE_CREDENTIAL,
        ("!(has(self.cloudInit) && has(self.cloudInitFrom))", "set cloudInit or cloudInitFrom, not both"),
    )

    gpu: Gpu | None = Field(None, description="Which GPUs, and how many. Absent: none, a VM of a `resourceSize`.")
    public: bool = Field(
        False, description="Whether the endpoint is open to anybody; otherwise it requires the account's key."
    )
    node_id: str | None = Field(
        None,
        min_length=1,
        max_length=253,
        description="Node to be placed on, and on no other; needed for capacity that is reserved for the organization.",
    )
    cloud_init: str | None = Field(
        None,
        min_length=1,
        max_length=LONGEST_SCRIPT,
        repr=False,
        json_schema_extra=field_rules(("self.startsWith('#!')", f"cloudInit {_NO_SHEBANG}")),
        description="Script that runs as root on the first boot of a disk; its output is in the VM's logs.",
    )
    cloud_init_from: ValueSource | None = Field(
        None, description="The same, read from a Secret or ConfigMap when the VM is created."
    )
    ssh_key_refs: list[LocalRef] | None = Field(
        None,
        max_length=64,
        json_schema_extra=map_by("name"),
        description="SshKeys of this namespace. A key that you add is attached in place; a key cannot be removed.",
    )


class GpuVmStatus(MachineStatus):
    """What the cloud says about one VM."""

    resource_size: str | None = Field(None, max_length=128, description="Size of the machine.")
    tier: str | None = Field(None, max_length=64, description="Tier of capacity it has.")
    disk_size_gb: int | None = Field(None, ge=0, description="Its disk in GB.")


class GpuVm(Resource[GpuVmSpec, GpuVmStatus]):
    """One VM."""

    kind: Literal["GpuVm"] = "GpuVm"


DEFINITION = definition_of(
    GpuVm,
    "gvm",
    summary="A virtual machine with GPUs or without, with an HTTPS endpoint, SSH keys and a script for its first boot.",
    columns=(*FIRST_COLUMNS, Column("Size", ".status.resourceSize"), READY, *LAST_COLUMNS),
)

Vm: TypeAlias = Resource[GpuVmSpec, GpuVmStatus]


class GpuVms(Machines[GpuVmSpec, GpuVmStatus]):
    """How a GpuVm maps to a VM of the cloud (section 4)."""

    definition = DEFINITION
    model = GpuVm
    others = POD
    is_source = True
    mirrored = (*MIRRORED, *_MACHINE)

    async def create(self, cloud: Cloud, obj: Vm, intent: CreateIntent, inputs: Inputs) -> VmRecord:
        spec = obj.spec
        request = VmCreate.model_validate(
            {
                **requested(spec, inputs.ids),
                "name": intent.name,
                "gpu_model_id": inputs.model_id or None,
                "gpu_count": spec.gpu.count if spec.gpu is not None else None,
                "env_vars": dict(inputs.env) or None,
                "public": spec.public,
                "node_id": spec.node_id,
                "cloud_init": spec.cloud_init or inputs.texts.get("cloudInitFrom"),
                "ssh_key_ids": [inputs.ids[key] for key in _keys(obj)] or None,
            }
        )
        made = await cloud.call(operations.CREATE_VM, request)
        return VmRecord(id=made.id, name=made.name, status=made.status)

    def capacity(self, obj: Vm, model_id: str) -> Capacity:
        spec = obj.spec
        return Capacity(model_id, spec.gpu.count) if spec.gpu is not None else Capacity(size=spec.resource_size or "")

    def immutable(self, obj: Vm) -> Mapping[str, JsonValue]:
        spec = obj.spec
        return {
            **unchangeable(spec),
            "gpu.count": spec.gpu.count if spec.gpu is not None else None,
            "nodeId": spec.node_id,
            "cloudInit": spec.cloud_init,
            "cloudInitFrom": as_written(spec.cloud_init_from),
        }

    def models(self, obj: Vm) -> tuple[str, ...]:
        return obj.spec.gpu.candidates if obj.spec.gpu is not None else ()

    def input_refs(self, obj: Vm) -> InputRefs:
        script = obj.spec.cloud_init_from
        texts = {} if script is None else {"cloudInitFrom": script}
        return InputRefs(obj.spec.env or (), obj.spec.env_from or (), texts=texts)

    def unusable(self, obj: Vm, inputs: Inputs) -> str | None:
        script = inputs.texts.get("cloudInitFrom", "#!")
        if len(script) > LONGEST_SCRIPT:
            return f"cloudInitFrom: the script has more than {LONGEST_SCRIPT} characters"
        return None if script.startswith("#!") else f"cloudInitFrom: the script {_NO_SHEBANG}"

    def references(self, obj: Vm) -> tuple[ObjectKey, ...]:
        return (*_keys(obj), *credential(obj.metadata.namespace, obj.spec))

    def giving(self, obj: Vm, observed: VmRecord, ids: Mapping[ObjectKey, str]) -> tuple[Change, ...]:
        has = {each.id for each in obj.status.references or ()}
        return tuple(_attach(observed.id, key, ids[key]) for key in _keys(obj) if ids.get(key, "") not in {"", *has})

    def differences(self, obj: Vm, observed: VmRecord) -> tuple[str, ...]:
        spec, named = obj.spec, set(_keys(obj))
        held = (ObjectKey(each.kind, obj.metadata.namespace, each.name) for each in obj.status.references or ())
        taken_off = sorted(key.name for key in held if key.kind == SSH_KEY and key not in named)
        text = (f"sshKeyRefs: has {', '.join(taken_off)}, which cannot be taken off",) if taken_off else ()
        return (
            *self.of_the_other_kind(observed),
            *text,
            *differing(
                ("image", spec.image, observed.image_url),
                ("gpu.count", spec.gpu.count if spec.gpu is not None else None, observed.gpu_count),
                ("gpu.modelIds", self.models(obj), observed.gpu_model_id),
                *same_named(spec, observed, *_MACHINE),
            ),
        )

    def changes(self, obj: Vm, observed: VmRecord, *, running: bool) -> tuple[Change, ...]:
        return self.visibility(observed, public=obj.spec.public)


def _keys(obj: Vm) -> tuple[ObjectKey, ...]:
    return tuple(ObjectKey(SSH_KEY, obj.metadata.namespace, each.name) for each in obj.spec.ssh_key_refs or ())


def _attach(vm_id: str, key: ObjectKey, key_id: str) -> Change:
    async def send(cloud: Cloud) -> None:
        await cloud.call(operations.ATTACH_SSH_KEY, SshKeyAttach(ssh_key_id=key_id), id=vm_id)

    gives = HeldReference(kind=key.kind, name=key.name, id=key_id)
    return Change("attach-ssh-key", Reason.UPDATING, send, to=key.name, gives=gives)
