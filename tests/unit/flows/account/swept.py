"""An account's sweeps, what it has in the cloud, and objects that ask for some of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from relay_operator.api.cloudaccount import Orphans
from relay_operator.api.meta import FINALIZER, ObjectKey
from relay_operator.engine.intent import cloud_name
from relay_operator.engine.leftover import Fate
from relay_operator.flows.account.sweep import Sweeper, SweepMemory
from relay_operator.flows.managed.traces import ManagedTraces
from relay_operator.kinds.gpupod import GpuPodStatus
from relay_wire.billing import CurrentUsage
from tests.unit.flows.managed.cloudpods import MemoryPods
from tests.unit.flows.managed.world import NAMESPACE, World

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue

    from relay_client import Cloud
    from relay_operator.engine.traces import Traces
    from relay_operator.engine.unclaimed_ids import UnclaimedIds
    from relay_wire.vms import VmRecord

ACCOUNT = ObjectKey("CloudAccount", NAMESPACE, "default")
ORPHAN = cloud_name(NAMESPACE, "gone", "01234567-89ab", "c0ffe", 1)


class Listed(MemoryPods):
    """A kind whose list tells all pods of the world."""

    async def living(self, cloud: Cloud, unclaimed: UnclaimedIds) -> Mapping[str, str]:
        return {record.id: record.name for record in self.pods.live}


@dataclass
class Swept:
    """An account's sweeps in a world."""

    world: World
    traces: dict[str, Traces] = field(default_factory=dict)
    memory: SweepMemory = field(default_factory=SweepMemory)
    late: list[str] = field(default_factory=list)
    organizations: dict[ObjectKey, str] = field(default_factory=dict)
    everywhere: bool = True

    def knows(self, kind: str, pods: type[MemoryPods]) -> None:
        """What such a kind can tell of the world's pods."""
        world = self.world
        self.traces[kind] = ManagedTraces(pods(world.pods), GpuPodStatus(), world.cache, world.flow.installation)

    def has(self, account: ObjectKey, **status: JsonValue) -> None:
        """There is such an account."""
        named: dict[str, JsonValue] = {"name": account.name, "namespace": account.namespace, "uid": f"of-{account}"}
        metadata = named | {"finalizers": [FINALIZER]}
        self.world.cache.put(account, {"kind": account.kind, "metadata": metadata, "status": status})

    async def __call__(self, usage: CurrentUsage | None = None, policy: Orphans = Orphans.REPORT) -> None:
        sweeper = Sweeper(
            self.world.reconciler.engine,
            self.traces,
            everywhere=self.everywhere,
            on_late=self.late.append,
            organization_of=self.organizations.get,
        )
        await sweeper.sweep(self.world.account.ready, usage, policy, self.memory, self.world.clock.wall())

    def told(self) -> list[tuple[Fate, str]]:
        return [(one.fate, one.id) for one in self.world.informer.vanished.leftovers.of(ACCOUNT)]


def used(*resources: VmRecord, hours: float = 1.0) -> CurrentUsage:
    """The month's usage, with as many hours of each."""
    lines = [{"resourceId": one.id, "kind": "pod", "name": one.name, "hours": hours} for one in resources]
    return CurrentUsage.model_validate({"usageCents": 0, "usageHours": 0, "breakdown": lines})


ELSEWHERE = ObjectKey("CloudAccount", "team-b", "default")


def asking(swept: Swept, cloud_id: str, account: ObjectKey, name: str = "asking", **status: JsonValue) -> None:
    """An object that uses this account, and asks to adopt this id."""
    metadata: JsonValue = {
        "name": name,
        "namespace": account.namespace,
        "uid": f"{name}-{cloud_id}",
        "annotations": {"gpurelay.dev/adopt-id": cloud_id},
    }
    swept.world.cache.put(
        ObjectKey("GpuPod", account.namespace, name), {"kind": "GpuPod", "metadata": metadata, "status": status}
    )
