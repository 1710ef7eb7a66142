"""Measurements of pods and clusters. They return figures and do not compare them with targets."""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass

import aiohttp

from bench.objects import Course, apply_until_ready
from bench.usage import usage
from bench.world import OPERATOR_USER, World
from tests.support.audit import Write
from tests.support.eventually import eventually
from tests.support.kube import Kube
from tests.support.localcloud import Organization
from tests.support.manifests import gpu_cluster, ready
from tests.support.operator import Operator

CLUSTERS = 50
EVENTS_PER_TOGGLE = 2  # that of the replica and that of its cluster


@dataclass(frozen=True, slots=True)
class Creation:
    """The times of a batch of pods from apply to Ready, and the CPU seconds of the process that reconciled them."""

    course: Course
    cpu: float


async def floor_creates(world: World, count: int, name: str) -> Creation:
    """Measures the floor with so many pods."""
    organization = await world.organization(name, count)
    async with world.namespace(name) as kube, world.floor(name, organization) as floor:
        before = usage(floor.pid).cpu
        course = await apply_until_ready(kube, count)
        return Creation(course, usage(floor.pid).cpu - before)


async def operator_creates(world: World, operator: Operator, count: int, name: str) -> tuple[Creation, list[Write]]:
    """Measures the operator with so many pods; returns also its Kubernetes writes, from the audit log."""
    organization = await world.organization(name, count)
    async with world.namespace(name) as kube:
        await world.account(kube, organization)
        position = world.plane.audit.position()
        before = usage(operator.process.pid).cpu
        course = await apply_until_ready(kube, count)
        creation = Creation(course, usage(operator.process.pid).cpu - before)
        await asyncio.sleep(2)  # audit lines appear shortly after the replies
        return creation, workload_writes(world.plane.writes_by(OPERATOR_USER, position))


def workload_writes(writes: list[Write]) -> list[Write]:
    """Returns the writes without those of the Lease and without SelfSubjectReviews, which store nothing."""
    return [write for write in writes if write.resource not in {"leases", "selfsubjectreviews"}]


@dataclass(frozen=True, slots=True)
class Quiet:
    """The measurement of a quiet period; `core_share` is a share of one core, `resident` is in bytes."""

    seconds: float
    core_share: float
    resident: int
    writes: Counter[str]


async def settled(world: World, operator: Operator, seconds: float) -> Quiet:
    """Measures the operator for so many seconds in which all its objects match their specs."""
    position, before, started = world.plane.audit.position(), usage(operator.process.pid), time.monotonic()
    await asyncio.sleep(seconds)
    took, after = time.monotonic() - started, usage(operator.process.pid)
    writes = workload_writes(world.plane.writes_by(OPERATOR_USER, position))
    return Quiet(took, (after.cpu - before.cpu) / took, after.resident, Counter(write.resource for write in writes))


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds from the receipt of a webhook to the status write, from the operator's histogram: upper bounds."""

    events: float
    p50: float
    p99: float


async def webhook_latency(world: World, operator: Operator, per_second: float, seconds: float) -> Latency:
    """Makes replicas unhealthy and healthy again, at so many events per second, and measures the latency."""
    organization = await world.organization("hooks", CLUSTERS * 2)
    async with world.namespace("hooks") as kube:
        await world.account(kube, organization)
        replicas = await _clusters(kube, organization)
        before = await _histogram(operator)
        await _toggle(world, replicas, per_second / EVENTS_PER_TOGGLE, seconds)
        await asyncio.sleep(3)
        return _latency(before, await _histogram(operator))


async def _clusters(kube: Kube, organization: Organization) -> list[tuple[str, str]]:
    """Creates the clusters; returns for each its id and that of one replica once all are Ready."""
    for number in range(CLUSTERS):
        await kube.create(gpu_cluster(f"cluster-{number:03}", replicas=2, model="h100"))
    await eventually(
        lambda: kube.list("GpuCluster"), lambda items: all(map(ready, items)), within=300, what="all clusters are Ready"
    )
    ids = [item["status"]["id"] for item in await kube.list("GpuCluster")]
    details = [await organization.cluster(cluster_id) for cluster_id in ids]
    return [(detail["id"], detail["replicas"][0]["id"]) for detail in details]


async def _toggle(world: World, replicas: list[tuple[str, str]], per_second: float, seconds: float) -> None:
    control = world.cloud.control
    async with aiohttp.ClientSession() as session:
        started, sent = time.monotonic(), 0
        while time.monotonic() - started < seconds:
            cluster_id, replica_id = replicas[sent % len(replicas)]
            event = "unhealthy" if (sent // len(replicas)) % 2 == 0 else "healthy"
            body = {"event": event, "replicaId": replica_id, "reason": "bench"}
            async with session.post(f"{control.url}/workloads/{cluster_id}/events", json=body) as answer:
                answer.raise_for_status()
            sent += 1
            await asyncio.sleep(max(started + sent / per_second - time.monotonic(), 0))


async def _histogram(operator: Operator) -> dict[float, float]:
    """Returns the cumulative counts of the latency histogram by upper bound in seconds."""
    name, counts = "gpurelay_webhook_to_status_seconds_bucket", {}
    async with aiohttp.ClientSession() as session, session.get(f"{operator.metrics_url}/metrics") as answer:
        for line in (await answer.text()).splitlines():
            if line.startswith(name):
                bound = line.partition('le="')[2].partition('"')[0]
                counts[float(bound)] = float(line.rpartition(" ")[2])
    return counts


def _latency(before: dict[float, float], after: dict[float, float]) -> Latency:
    counts = {bound: after[bound] - before.get(bound, 0) for bound in sorted(after)}
    total = counts[float("inf")]

    def quantile(share: float) -> float:
        return next((bound for bound, count in counts.items() if count >= share * total), float("inf"))

    return Latency(total, quantile(0.5), quantile(0.99))
