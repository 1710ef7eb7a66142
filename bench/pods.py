"""GpuPods and GpuClusters: creation against the floor, quiet, and webhooks."""

import asyncio
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.measurements import Creation, floor_creates, operator_creates, settled, webhook_latency
from bench.progress import say
from bench.results import Row
from bench.world import World, world
from tests.support.operator import Operator


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured: pods in a round, rounds, and seconds of quiet."""

    objects: int = 1000
    rounds: int = 1
    quiet_seconds: float = 120


async def pod_rows(extent: Extent) -> list[Row]:
    """All measurements of pods and clusters, one after another."""
    with tempfile.TemporaryDirectory(prefix="relay-bench-") as folder:
        # The floor on servers of its own: an operator would reconcile its objects too, and get in its way.
        async with world(Path(folder) / "floor") as servers:
            floors = []
            for number in range(extent.rounds):
                say(f"round {number + 1}: the floor, {extent.objects} pods")
                floors.append(await floor_creates(servers, extent.objects, f"floor-{number}"))
        async with world(Path(folder) / "operator") as servers, servers.operator() as operator:
            rows = await _creation(servers, operator, extent, floors)
            rows += await _quiet(servers, operator, extent)
            return rows + await _webhooks(servers, operator)


async def _creation(servers: World, operator: Operator, extent: Extent, floors: list[Creation]) -> list[Row]:
    pairs, on_pods = [], 0
    for number, floor in enumerate(floors):
        say(f"round {number + 1}: the operator, {extent.objects} pods")
        mine, writes = await operator_creates(servers, operator, extent.objects, f"pods-{number}")
        pairs.append((floor, mine))
        on_pods = sum(write.resource == "gpupods" for write in writes)
    ratio = statistics.median(mine.course.ready / floor.course.ready for floor, mine in pairs)
    cpu = statistics.median(mine.cpu / floor.cpu for floor, mine in pairs)
    walls = ", ".join(f"{mine.course.ready:.1f} s / {floor.course.ready:.1f} s" for floor, mine in pairs)
    per_object = statistics.median(mine.cpu / extent.objects * 1000 for _, mine in pairs)
    return [
        (f"{extent.objects} GpuPods, apply to Ready", f"{ratio:.2f} x the floor ({walls})", "1.5 x"),
        ("the same, CPU of the process", f"{cpu:.1f} x the floor, {per_object:.1f} ms an object", ""),
        ("Kubernetes writes an object", f"{on_pods / extent.objects:.2f}", "3"),
    ]


async def _quiet(servers: World, operator: Operator, extent: Extent) -> list[Row]:
    objects = extent.objects * extent.rounds
    say(f"{objects} settled objects, {extent.quiet_seconds:g} s")
    await asyncio.sleep(20)  # what creation left behind
    quiet = await settled(servers, operator, extent.quiet_seconds)
    return [
        (f"{objects} settled objects: a core", f"{quiet.core_share:.2%}", "under 1 %"),
        ("the same: resident memory", f"{quiet.resident / 1e6:.0f} MB", "under 150 MB"),
        ("the same: Kubernetes writes", f"{quiet.writes.total()} {dict(quiet.writes) or ''}", "0"),
    ]


async def _webhooks(servers: World, operator: Operator) -> list[Row]:
    say("webhooks, 50 events a second")
    latency = await webhook_latency(servers, operator, 50, 30)
    return [
        ("webhook to status, p50", f"at most {latency.p50 * 1000:g} ms", "under 50 ms"),
        (f"the same, p99 of {latency.events:g}", f"at most {latency.p99 * 1000:g} ms", "under 250 ms"),
    ]
