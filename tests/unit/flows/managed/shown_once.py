"""Pods whose create shows a value, and the Secret that keeps it."""

import base64
from collections.abc import Mapping
from datetime import timedelta

from pydantic import Field

from relay_client import Cloud
from relay_operator.api.meta import CreateIntent
from relay_operator.api.workload import SupersedingStatus
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.managed.resource import Found, Inputs, NotSeen, SearchResult
from relay_operator.flows.managed.shown_once import VALUE_OF, Life, Place
from relay_operator.kinds.gpupod import GpuPod, GpuPodSpec, GpuPodStatus, Pod
from relay_wire.vms import VmRecord
from tests.unit.engine.apiserver import Json, part
from tests.unit.flows.managed.cloudpods import MemoryPods
from tests.unit.flows.managed.world import NAMESPACE, World

SECRET = "the-value"
CANARY = "canary-"
HOUR = timedelta(hours=1)


class NewRecord(VmRecord):
    value: str


class RotatingPodStatus(GpuPodStatus, SupersedingStatus):
    pass


class RotatingPod(GpuPod):
    status: RotatingPodStatus = Field(default_factory=RotatingPodStatus)


class PodsWithAValue(MemoryPods):
    """Pods whose create shows a value; the list has those that ended as well."""

    model: type[GpuPod] = RotatingPod
    lives: Life | None = None
    """None: for ten hours from its create on, of which the last two are for another to take its place."""

    async def create(self, cloud: Cloud, obj: Pod, intent: CreateIntent, inputs: Inputs) -> VmRecord:
        made = await super().create(cloud, obj, intent, inputs)
        return NewRecord.model_validate({**made.model_dump(by_alias=True), "value": CANARY + made.id})

    async def find(self, cloud: Cloud, name: str, unclaimed: UnclaimedIds) -> SearchResult[VmRecord]:
        self.pods.end("find", self.pods.begin("find"))
        named = (record for record in self.pods.records.values() if record.name == name)
        return next((Found(record) for record in named), NotSeen())

    def kept_in(self, obj: Pod) -> Place:
        return Place(SECRET, "value")

    def life(self, spec: GpuPodSpec, status: GpuPodStatus) -> Life:
        made = status.running_since
        hours = None if made is None else Life(made + 10 * HOUR, 2 * HOUR, 4 * HOUR)
        return self.lives or hours or Life()

    def shown(self, observed: VmRecord) -> str:
        return observed.value if isinstance(observed, NewRecord) else ""


def secret(world: World) -> Json:
    return world.server.objects.get(("secrets", NAMESPACE, SECRET), {})


def kept(world: World) -> tuple[str, str]:
    """The id that the Secret names, and the value in it."""
    raw = secret(world)
    value = base64.b64decode(str(part(raw, "data")["value"])).decode()
    return str(part(part(raw, "metadata"), "annotations")[VALUE_OF]), value


def put_secret(world: World, uid: str, more: Mapping[str, bool] | None = None) -> None:
    owners: list[Json] = [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": uid}]
    metadata: Json = {"name": SECRET, "namespace": NAMESPACE, "ownerReferences": [*owners]}
    world.server.put("secrets", {"metadata": metadata, "data": {"value": "b2xk"}, **(more or {})})
