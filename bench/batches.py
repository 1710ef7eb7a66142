"""InferenceBatches on real servers: large ones, many at once; and the local cloud alone."""

import statistics
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bench.cloud_speed import cloud_speed
from bench.large_batch import Course, Servers, measured, open_bucket
from bench.many_batches import crowd
from bench.progress import say
from bench.records import Shape
from bench.results import Row
from bench.world import World, world
from tests.support.s3 import S3Server

LARGE = {
    "100,000 records, 200 MB": Shape(100_000, 1_850, random_ids=True),
    "100,000 records, 20 MB": Shape(100_000, 50, random_ids=True),
}
ALONE = Shape(50_000, 50, random_ids=True)
AT_ONCE = 500
REACH = {"allowed_private_networks": "127.0.0.0/8"}
"""Lets the operator reach the S3 server, which is on this machine."""
PATIENT = {"lease_duration_seconds": "60", "lease_renew_deadline_seconds": "40"}
"""Longer than the defaults: on a busy machine the API server may answer too late for the leader to renew its Lease."""


async def batch_rows() -> list[Row]:
    """Measures the local cloud alone, then batches from bucket to bucket."""
    async with _quick_world() as servers:
        return await _alone(servers) + await _large(servers)


async def crowd_rows() -> list[Row]:
    """Measures many batches at once."""
    async with _quick_world() as servers:
        return await _many(servers)


@asynccontextmanager
async def _quick_world() -> AsyncIterator[World]:
    """Starts the servers, with a cloud that adds no delay to the work on a record."""
    with tempfile.TemporaryDirectory(prefix="relay-bench-") as folder:
        async with world(Path(folder)) as servers:
            await servers.cloud.control.settings(batchRecordSeconds=0)
            yield servers


async def _alone(servers: World) -> list[Row]:
    say(f"the local cloud alone, {ALONE.records:,} records")
    speed = await cloud_speed(servers.cloud, await servers.organization("alone", 0), ALONE)
    figure = f"{speed.records_a_cpu_second:,.0f} ({speed.spent.cpu:.1f} s of CPU, {speed.seconds:.1f} s by the clock)"
    return [(f"the local cloud alone, {ALONE.records:,} records: records a second on a core", figure, "at least 2,000")]


async def _large(world: World) -> list[Row]:
    rows: list[Row] = []
    organization = await world.organization("large", 0)
    async with _s3(world.folder / "s3") as s3, world.namespace("large") as kube, world.operator(REACH) as operator:
        await world.account(kube, organization)
        await open_bucket(kube, s3)
        for number, (name, shape) in enumerate(LARGE.items()):
            say(f"from bucket to bucket: {name}")
            course = await measured(Servers(world, operator, s3), kube, f"large-{number}", shape)
            rows += _course(name, course)
    return rows


def _course(name: str, course: Course) -> list[Row]:
    operator, cloud, writes = course.operator, course.cloud, course.writes
    return [
        (f"{name}, from S3 to S3: operator's memory grows by", f"{operator.memory / 1e6:.0f} MB", "under 64 MB"),
        ("the same: operator's CPU a record", f"{operator.cpu / course.records * 1e6:.1f} µs", "under 20 µs"),
        ("the same: Kubernetes writes", f"{writes.total()} {dict(writes)}", "at most 200"),
        ("the same: the local cloud's memory grows by", f"{cloud.memory / 1e6:.0f} MB", ""),
        ("the same: the local cloud's CPU a record", f"{cloud.cpu / course.records * 1e6:.0f} µs", ""),
        ("the same: from apply to complete", f"{course.seconds:.0f} s", ""),
    ]


async def _many(world: World) -> list[Row]:
    say(f"{AT_ONCE} batches at once")
    organization = await world.organization("many", AT_ONCE)
    async with world.namespace("many") as kube, world.operator(PATIENT) as operator:
        await world.account(kube, organization)
        many = await crowd(world, operator, kube, organization, AT_ONCE)
    return [
        (f"{AT_ONCE} InferenceBatches at once: a GpuPod among them is with the cloud after", _waits(many.among), "2 s"),
        ("the same pod before there were batches", _waits(many.before), ""),
        ("the same: all complete after", f"{many.seconds:.0f} s", ""),
        ("the same: operator's CPU a batch", f"{many.operator.cpu / many.batches * 1000:.1f} ms", ""),
        ("the same: operator's memory grows by", f"{many.operator.memory / 1e6:.0f} MB", ""),
    ]


def _waits(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.2f} s at the median of {len(seconds)}, at most {max(seconds):.2f} s"


@asynccontextmanager
async def _s3(folder: Path) -> AsyncIterator[S3Server]:
    server = S3Server(folder)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
