"""A restart of the operator among settled objects: the time until it is idle, and the latency of new objects."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bench.measurements import workload_writes
from bench.results import Row, told
from bench.usage import cpu
from bench.world import OPERATOR_USER, World
from tests.support.eventually import eventually
from tests.support.kube import Kube, Manifest
from tests.support.manifests import gpu_pod, ready
from tests.support.operator import Operator

RESTS_BELOW = 0.2
"""The share of a core over `LOOK` seconds below which the operator counts as idle.

New objects and polls take less than this, reading existing objects takes more.
"""
LOOK = 2.0
WITHIN = 300.0
"""Seconds after which the measurement stops waiting for the operator to be idle; the figure then shows it."""
BETWEEN_PODS = 0.5
MOST_PODS = int(WITHIN / BETWEEN_PODS)


@dataclass(frozen=True, slots=True)
class Restart:
    """Seconds from the start until /readyz is 200, and until it is idle; Kubernetes writes, except for new objects."""

    ready: float
    settled: float
    cpu: float
    """CPU seconds until it is idle."""
    writes: Counter[str]
    waits: list[float]
    """For each object created after it was ready, seconds until its status had a cloud id."""


@asynccontextmanager
async def newcomers(world: World) -> AsyncIterator[Kube]:
    """Creates the namespace and account of the new objects; an operator must run, which makes the account Ready."""
    organization = await world.organization("new", MOST_PODS)
    async with world.namespace("new") as kube:
        await world.account(kube, organization)
        yield kube


async def restarted(world: World, operator: Operator, kube: Kube) -> Restart:
    """Stops and starts the operator and measures it; creates new objects in the namespace of `kube`."""
    await operator.stop()
    position, started = world.plane.audit.position(), time.monotonic()
    await operator.start()
    ready_after = time.monotonic() - started
    rests = asyncio.create_task(_rests(operator.process.pid, started + WITHIN))
    waits = await _new_pods(kube, rests.done)
    await asyncio.sleep(2)  # audit lines appear shortly after the replies
    written = workload_writes(world.plane.writes_by(OPERATOR_USER, position))
    writes = Counter(write.resource for write in written if write.namespace != kube.namespace)
    rested, spent = await rests
    return Restart(ready_after, rested - started, spent, writes, waits)


def restart_rows(objects: int, restart: Restart, within: float) -> list[Row]:
    """Returns the rows of a restart among so many objects; `within` is the target in seconds for being idle."""
    longest = f"at most {max(restart.waits):.2f} s, of {len(restart.waits)}" if restart.waits else "it rested before"
    return [
        (
            f"a restart with {objects:,} settled objects: until it rests",
            f"{restart.settled:.1f} s, {restart.cpu:.1f} s of CPU (ready after {restart.ready:.1f} s)",
            f"{within:g} s",
        ),
        ("the same: a new object during it is with the cloud after", longest, "2 s"),
        ("the same: Kubernetes writes", told(restart.writes), "0"),
    ]


async def with_the_cloud(kube: Kube, name: str) -> float:
    """Creates a pod; returns the seconds until its status has a cloud id."""
    started = time.monotonic()
    await kube.create(gpu_pod(name, model="h100"))
    await eventually(kube.looking_at("GpuPod", name), _has_id, within=60, every=0.02, what=f"{name} is with the cloud")
    return time.monotonic() - started


async def _new_pods(kube: Kube, end: Callable[[], bool]) -> list[float]:
    waits: list[float] = []
    while not end():
        waits.append(await with_the_cloud(kube, f"new-{len(waits):03}"))
        await asyncio.sleep(BETWEEN_PODS)
    await eventually(lambda: kube.list("GpuPod"), lambda pods: all(map(ready, pods)), what="the new pods are Ready")
    return waits


async def _rests(pid: int, deadline: float) -> tuple[float, float]:
    """Returns the start of the first idle period, or about the deadline if there is none, and the CPU seconds by then.

    Moments are monotonic seconds.
    """
    since, before = time.monotonic(), cpu(pid)
    while since < deadline:
        await asyncio.sleep(LOOK)
        if cpu(pid) - before < RESTS_BELOW * (time.monotonic() - since):
            break
        since, before = time.monotonic(), cpu(pid)
    return since, before


def _has_id(pod: Manifest | None) -> bool:
    return bool(((pod or {}).get("status") or {}).get("id"))
