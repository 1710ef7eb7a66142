"""GpuPods and GpuClusters: creation compared with the floor, a restart, a quiet period, and webhooks."""

import statistics
import tempfile
from pathlib import Path

from bench.extent import Extent
from bench.measurements import Creation, floor_creates, operator_creates, settled, webhook_latency
from bench.progress import say
from bench.restarting import newcomers, restart_rows, restarted
from bench.results import Row, told
from bench.world import World, world
from tests.support.operator import Operator

EVENTS = 100
"""Webhooks per second."""


async def pod_rows(extent: Extent) -> list[Row]:
    """Makes all measurements of pods and clusters, one after another."""
    with tempfile.TemporaryDirectory(prefix="relay-bench-") as folder:
        # The floor has its own servers, where no operator reconciles its objects as well.
        async with world(Path(folder) / "floor") as servers:
            floors = []
            for number in range(extent.rounds):
                say(f"round {number + 1}: the floor, {extent.objects} pods")
                floors.append(await floor_creates(servers, extent.objects, f"floor-{number}"))
        async with world(Path(folder) / "operator") as servers, servers.operator() as operator:
            rows = await _creation(servers, operator, extent, floors)
            say(f"a restart with {_settled(extent)} settled objects")
            async with newcomers(servers) as kube:
                rows += restart_rows(_settled(extent), await restarted(servers, operator, kube), within=10)
            rows += await _quiet(servers, operator, extent)
            return rows + await _webhooks(servers, operator)


async def _creation(servers: World, operator: Operator, extent: Extent, floors: list[Creation]) -> list[Row]:
    say(f"{_few(extent)} pods first")
    few, _ = await operator_creates(servers, operator, _few(extent), "few")
    pairs, on_pods = [], 0
    for number, floor in enumerate(floors):
        say(f"round {number + 1}: the operator, {extent.objects} pods")
        mine, writes = await operator_creates(servers, operator, extent.objects, f"pods-{number}")
        pairs.append((floor, mine))
        on_pods = sum(write.resource == "gpupods" for write in writes)
    say(f"{_few(extent)} pods after them")
    after, _ = await operator_creates(servers, operator, _few(extent), "few-after")
    ratio = statistics.median(mine.course.ready / floor.course.ready for floor, mine in pairs)
    cpu = statistics.median(mine.cpu / floor.cpu for floor, mine in pairs)
    walls = ", ".join(f"{mine.course.ready:.1f} s / {floor.course.ready:.1f} s" for floor, mine in pairs)
    per_object = statistics.median(mine.cpu / extent.objects * 1000 for _, mine in pairs)
    return [
        (f"{extent.objects} GpuPods, apply to Ready", f"{ratio:.2f} x the floor ({walls})", "1.2 x"),
        ("the same, CPU of the process", f"{cpu:.1f} x the floor, {per_object:.1f} ms an object", "2.4 x"),
        (
            f"CPU an object: {_few(extent)} pods first, {extent.objects}, and {_few(extent)} after them",
            f"{few.cpu / _few(extent) * 1000:.1f} ms, {per_object:.1f} ms, {after.cpu / _few(extent) * 1000:.1f} ms",
            "the same for all",
        ),
        ("Kubernetes writes an object", f"{on_pods / extent.objects:.2f}", "3"),
    ]


async def _quiet(servers: World, operator: Operator, extent: Extent) -> list[Row]:
    say(f"{_settled(extent)} settled objects, {extent.quiet_seconds:g} s")
    # Since the restart, polls are spread evenly, so that any period has its share.
    quiet = await settled(servers, operator, extent.quiet_seconds)
    return [
        (f"{_settled(extent)} settled objects: a core", f"{quiet.core_share:.2%}", "under 3 %"),
        ("the same: resident memory", f"{quiet.resident / 1e6:.0f} MB", "under 250 MB"),
        ("the same: Kubernetes writes", told(quiet.writes), "0"),
    ]


async def _webhooks(servers: World, operator: Operator) -> list[Row]:
    say(f"webhooks, {EVENTS} events a second")
    latency = await webhook_latency(servers, operator, EVENTS, 30)
    return [
        (f"webhook to status, {EVENTS} events a second: p50", f"at most {latency.p50 * 1000:g} ms", "under 50 ms"),
        (f"the same, p99 of {latency.events:g}", f"at most {latency.p99 * 1000:g} ms", "under 250 ms"),
    ]


def _few(extent: Extent) -> int:
    """A twentieth of the objects, to find out whether a pod costs more among many."""
    return extent.objects // 20


def _settled(extent: Extent) -> int:
    """The number of pods that exist after all rounds."""
    return 2 * _few(extent) + extent.objects * extent.rounds
