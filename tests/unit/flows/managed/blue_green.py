"""Pods that are replaced without a gap, and what a test asks about the new one and the old one."""

import base64
from collections.abc import Callable
from datetime import timedelta

from pydantic import Field, JsonValue

from relay_operator.api.meta import ObjectKey
from relay_operator.api.parts import ClusterUpdateStrategy, UpdateType
from relay_operator.api.workload import BlueGreenStatus
from relay_operator.kinds.gpupod import GpuPod, GpuPodSpec, GpuPodStatus, Pod
from tests.unit.engine.apiserver import part
from tests.unit.flows.managed.cloudpods import MemoryPods
from tests.unit.flows.managed.world import NAMESPACE, World

BLUE_GREEN: JsonValue = {"type": "BlueGreen", "drainSeconds": 60}
KEY = ObjectKey("GpuPod", NAMESPACE, "train")


class BlueSpec(GpuPodSpec):
    update_strategy: ClusterUpdateStrategy | None = None


class BlueStatus(GpuPodStatus, BlueGreenStatus):
    """A pod's, with an old one."""


class BluePod(GpuPod):
    spec: BlueSpec
    status: BlueStatus = Field(default_factory=BlueStatus)


class BluePods(MemoryPods):
    """Pods that are replaced without a gap."""

    model: type[GpuPod] = BluePod

    def drain(self, obj: Pod) -> timedelta | None:
        strategy = obj.spec.update_strategy
        assert strategy is None or isinstance(strategy, ClusterUpdateStrategy)
        asked = strategy is not None and strategy.type is UpdateType.BLUE_GREEN
        return timedelta(seconds=strategy.drain_seconds) if strategy is not None and asked else None


def status(world: World) -> BlueStatus:
    return BluePod.model_validate(world.raw()).status


def ids(world: World) -> list[str | None]:
    """Of the resource, and of the old one."""
    told = status(world)
    return [told.id, *(row.id for row in told.former or ())]


def reached(world: World) -> str:
    """What the Secret says."""
    data = part(world.server.objects["secrets", NAMESPACE, "reached"], "data")
    return base64.b64decode(str(data["URL"])).decode()


def live(world: World) -> list[str]:
    return [record.id for record in world.pods.live]


def becomes(world: World, cloud_id: str, state: str) -> None:
    world.pods.become(cloud_id, state)
    world.hint()


async def until(world: World, holds: Callable[[], bool]) -> None:
    """Pass by pass."""
    for _ in range(20):
        if holds():
            return
        assert await world.one_pass() is not None
    raise AssertionError("it never came to that")
