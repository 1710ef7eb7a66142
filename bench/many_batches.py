"""Many InferenceBatches at once, and GpuPods that are created meanwhile."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from bench.objects import APPLIERS, until_all
from bench.usage import Meter, Spent
from bench.world import World
from tests.cluster.batch_side import KIND, batch, complete
from tests.support.eventually import eventually
from tests.support.kube import Kube
from tests.support.localcloud import Organization
from tests.support.manifests import gpu_pod
from tests.support.operator import Operator

RECORDS = [{"customId": f"r{each}", "body": {"messages": [{"role": "user", "content": "hello"}]}} for each in range(5)]
WITHIN = 400.0
"""The time limit in seconds."""
BETWEEN_PODS = 1.0
PODS_BEFORE = 10
CREATE_POD = "POST /v1/pods"


@dataclass(frozen=True, slots=True)
class Crowd:
    """The measurement of many batches; `seconds` from the first creation until all were complete.

    `before` and `among` have, for each pod before and during the batches, the seconds from its creation until the
    create reached the cloud.
    """

    batches: int
    seconds: float
    operator: Spent
    before: list[float]
    among: list[float]


async def crowd(world: World, operator: Operator, kube: Kube, organization: Organization, count: int) -> Crowd:
    """Runs so many small batches into ConfigMaps, and creates one pod after another until all are complete."""
    pods = _Pods(world, kube, organization)
    before = await pods.until(lambda: len(pods.waits) == PODS_BEFORE)
    meter, started = Meter(operator.process.pid), time.monotonic()
    names = iter([f"batch-{number:03}" for number in range(count)])

    async def applier() -> None:
        for name in names:
            await kube.create(batch(name, input={"inline": RECORDS}, output={"configMapRef": {"name": name}}))

    async with asyncio.timeout(WITHIN), asyncio.TaskGroup() as group:
        complete_all = group.create_task(until_all(kube, KIND, count, complete))
        among = group.create_task(pods.until(complete_all.done))
        for _ in range(APPLIERS):
            group.create_task(applier())
    return Crowd(count, time.monotonic() - started, meter.spent(), before, among.result())


@dataclass(slots=True)
class _Pods:
    """Creates pods one after another, each a second after the create of the previous one reached the cloud."""

    world: World
    kube: Kube
    organization: Organization
    waits: list[float] = field(default_factory=list)

    async def until(self, end: Callable[[], bool]) -> list[float]:
        """Creates pods until `end` is true; returns the seconds that each of them waited."""
        first = len(self.waits)
        while not end():
            await self._one(len(self.waits))
            await asyncio.sleep(BETWEEN_PODS)
        return self.waits[first:]

    async def _one(self, number: int) -> None:
        created = datetime.now(UTC)
        await self.kube.create(gpu_pod(f"pod-{number:03}", model="h100"))

        async def sent() -> datetime | None:
            logged = await self.world.cloud.control.requests(organization=self.organization)
            moments = [each["at"] for each in logged if each["operation"] == CREATE_POD]
            return datetime.fromisoformat(moments[number]) if len(moments) > number else None

        at = await eventually(sent, within=60, every=0.25, what=f"pod {number} is sent to the cloud")
        assert at is not None
        self.waits.append((at - created).total_seconds())
