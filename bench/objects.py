"""Creates objects and waits until all are Ready, at the same cost whichever process reconciles them."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.support.kube import Kube, Manifest
from tests.support.manifests import gpu_pod, ready

APPLIERS = 32


@dataclass(frozen=True, slots=True)
class Course:
    """Seconds from the first apply until all objects were applied, and until all were Ready."""

    applied: float
    ready: float


async def apply_until_ready(kube: Kube, count: int, *, within: float = 600.0) -> Course:
    """Creates so many GpuPods and waits, by one watch, until each has been Ready once. Raises TimeoutError."""
    started = time.monotonic()
    seen = asyncio.create_task(until_all(kube, "GpuPod", count, ready))
    names = iter(range(count))

    async def applier() -> None:
        for number in names:
            await kube.create(gpu_pod(f"pod-{number:05}", model="h100"))

    async with asyncio.timeout(within):
        await asyncio.gather(*(applier() for _ in range(APPLIERS)))
        applied = time.monotonic() - started
        await seen
    return Course(applied, time.monotonic() - started)


async def until_all(kube: Kube, kind: str, count: int, wanted: Callable[[Manifest], bool]) -> None:
    """Waits, by one watch, until `wanted` has accepted so many objects of a kind, not necessarily at the same time."""
    done: set[str] = set()
    while len(done) < count:
        # The API server ends the watch of a slow reader; the next one begins with all existing objects.
        async for event in kube.watch(kind):
            if event["type"] == "ERROR":
                break
            if wanted(event["object"]):
                done.add(event["object"]["metadata"]["name"])
            if len(done) == count:
                return
