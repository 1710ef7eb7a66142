"""Many InferenceBatches at once, and GpuPods that are created among them."""

import asyncio
import time
from dataclasses import dataclass
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
"""Seconds after which it is given up."""
BETWEEN_PODS = 1.0
CREATE_POD = "POST /v1/pods"


@dataclass(frozen=True, slots=True)
class Crowd:
    """How so many batches went; seconds from the first creation until all were complete."""

    batches: int
    seconds: float
    operator: Spent
    until_sent: list[float]
    """For each pod, seconds from before its creation until the cloud answered the request for it."""


async def crowd(world: World, operator: Operator, kube: Kube, organization: Organization, count: int) -> Crowd:
    """So many batches of a few records each into ConfigMaps, and one pod after another until all are complete."""
    meter, started = Meter(operator.process.pid), time.monotonic()
    names = iter([f"batch-{number:03}" for number in range(count)])

    async def applier() -> None:
        for name in names:
            await kube.create(batch(name, input={"inline": RECORDS}, output={"configMapRef": {"name": name}}))

    async with asyncio.timeout(WITHIN), asyncio.TaskGroup() as group:
        complete_all = group.create_task(until_all(kube, KIND, count, complete))
        pods = group.create_task(_pods(world, kube, organization, complete_all))
        for _ in range(APPLIERS):
            group.create_task(applier())
    return Crowd(count, time.monotonic() - started, meter.spent(), pods.result())


async def _pods(world: World, kube: Kube, organization: Organization, until: asyncio.Task[None]) -> list[float]:
    """Pods one after another: the next one a little after the cloud got the one before."""
    waits: list[float] = []
    while not until.done():
        number = len(waits)
        created = datetime.now(UTC)
        await kube.create(gpu_pod(f"pod-{number:03}", model="h100"))

        async def sent(number: int = number) -> datetime | None:
            requests = [
                each
                for each in await world.cloud.control.requests(organization=organization)
                if each["operation"] == CREATE_POD
            ]
            return datetime.fromisoformat(requests[number]["at"]) if len(requests) > number else None

        at = await eventually(sent, within=60, every=0.25, what=f"pod {number} is sent to the cloud")
        assert at is not None
        waits.append((at - created).total_seconds())
        await asyncio.wait([until], timeout=BETWEEN_PODS)
    return waits
