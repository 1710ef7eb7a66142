"""Pods that are replaced as credentials are, and what uses the former ones."""

from collections.abc import Mapping

from pydantic import Field, JsonValue

from relay_operator.api.meta import ObjectKey
from relay_operator.api.workload import SupersedingStatus
from relay_operator.flows.managed.resource import Inputs
from relay_operator.kinds.gpupod import GpuPod, GpuPodStatus, Pod
from relay_wire.vms import VmRecord
from tests.unit.engine.apiserver import Json
from tests.unit.flows.managed.cloudpods import MemoryPods
from tests.unit.flows.managed.world import NAMESPACE, World

VM = ObjectKey("GpuVm", NAMESPACE, "box")
TOLD: Json = {"name": "box", "namespace": NAMESPACE, "uid": "box-uid"}


class KeptStatus(GpuPodStatus, SupersedingStatus):
    """A pod's, with former ones."""


class KeptPod(GpuPod):
    status: KeptStatus = Field(default_factory=KeptStatus)


class KeptPods(MemoryPods):
    """Pods that are replaced as credentials are. Their image is no difference: what they were made with is."""

    model: type[GpuPod] = KeptPod

    def immutable(self, obj: Pod) -> Mapping[str, JsonValue]:
        return {"image": obj.spec.image}

    def differences(self, obj: Pod, observed: VmRecord) -> tuple[str, ...]:
        return ()

    def unusable(self, obj: Pod, inputs: Inputs) -> str | None:
        return "env: TOKEN is garbage" if inputs.env.get("TOKEN") == "garbage" else None


def status(world: World) -> KeptStatus:
    return KeptPod.model_validate(world.raw()).status


def former(world: World) -> list[str]:
    return [each.id for each in status(world).former or ()]


def uses(world: World, version: int, *cloud_ids: str) -> None:
    """A VM as the watch tells of it, that was made with these ids."""
    rows: list[JsonValue] = [{"kind": "GpuPod", "name": "train", "id": cloud_id} for cloud_id in cloud_ids]
    metadata: JsonValue = TOLD | {"resourceVersion": str(version)}
    world.cache.put(VM, {"metadata": metadata, "status": {"id": "vm-1", "references": rows}})
