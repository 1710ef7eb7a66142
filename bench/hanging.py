"""The latency of one account's creates while the cloud hangs for another account."""

import asyncio
import tempfile
import time
from pathlib import Path

from bench.objects import until_all
from bench.progress import say
from bench.results import Row, p99
from bench.world import world
from tests.support.eventually import eventually
from tests.support.kube import Kube, Manifest
from tests.support.manifests import gpu_pod

PODS = 200
PER_SECOND = 10
HANGING = 200
"""Pods of the account whose creates get no answer: far more than the operator has workers."""
HANGS_SECONDS = 300
"""Longer than the operator's timeout."""
CREATE_POD = "POST /v1/pods"


async def hanging_rows() -> list[Row]:
    """Measures creates of one account alone, then while those of another account hang."""
    with tempfile.TemporaryDirectory(prefix="relay-bench-") as folder:
        async with world(Path(folder)) as servers, servers.operator() as operator:
            well, ill = await servers.organization("well", 2 * PODS), await servers.organization("ill", 0)
            async with servers.namespace("well") as here, servers.namespace("ill") as there:
                await servers.account(here, well)
                await servers.account(there, ill)
                say(f"{PODS} pods, {PER_SECOND} a second")
                alone = await _waits(here, "alone")
                await servers.cloud.control.fault(CREATE_POD, {"delaySeconds": HANGS_SECONDS}, organizationId=ill.id)
                for number in range(HANGING):
                    await there.create(gpu_pod(f"pod-{number:03}", model="h100"))
                await eventually(
                    lambda: operator.metric("gpurelay_queue_depth"),
                    lambda waiting: waiting >= HANGING / 2,
                    within=60,
                    what="pods of the cloud that hangs wait for a worker",
                )
                say(f"{PODS} pods, {PER_SECOND} a second, beside {HANGING} that hang")
                beside = await _waits(here, "beside")
    figure = f"{p99(beside) - p99(alone):.2f} s ({p99(beside):.2f} s, alone {p99(alone):.2f} s)"
    return [(f"p99 of {PODS} creates: longer, while {HANGING} of another account hang, by", figure, "under 1 s")]


async def _waits(kube: Kube, name: str) -> list[float]:
    """Creates pods at a steady rate; returns for each the seconds until its status has a cloud id."""
    begun: dict[str, float] = {}
    took: dict[str, float] = {}

    def is_created(pod: Manifest) -> bool:
        called = pod["metadata"]["name"]
        if called not in begun or not pod.get("status", {}).get("id"):
            return False
        took.setdefault(called, time.monotonic() - begun[called])
        return True

    seen, started = asyncio.create_task(until_all(kube, "GpuPod", PODS, is_created)), time.monotonic()
    for number in range(PODS):
        await asyncio.sleep(started + number / PER_SECOND - time.monotonic())
        begun[f"{name}-{number:03}"] = time.monotonic()
        await kube.create(gpu_pod(f"{name}-{number:03}", model="h100"))
    async with asyncio.timeout(120):
        await seen
    return list(took.values())
