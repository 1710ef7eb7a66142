"""Applies objects to the API server and tells when all of them are Ready. Costs the same whoever reconciles them."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.support.kube import Kube, Manifest
from tests.support.manifests import gpu_pod, ready

APPLIERS = 32


@dataclass(frozen=True, slots=True)
class Course:
    """How a batch went, in seconds from the first apply."""

    applied: float
    ready: float


async def apply_until_ready(kube: Kube, count: int, *, within: float = 600.0) -> Course:
    """Creates so many GpuPods and waits, by one watch, until each was seen Ready. Raises TimeoutError."""
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
    """Returns when so many objects of a kind were seen as wanted, by one watch, each at any time."""
    done: set[str] = set()
    while len(done) < count:
        # The API server ends the watch of a reader who falls behind; the next one begins with all there is.
        async for event in kube.watch(kind):
            if event["type"] == "ERROR":
                break
            if wanted(event["object"]):
                done.add(event["object"]["metadata"]["name"])
            if len(done) == count:
                return
