"""The measurements of one run. Each answers rows; none judges."""

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
EVENTS_PER_TOGGLE = 2  # the replica's, and its cluster's


@dataclass(frozen=True, slots=True)
class Creation:
    """One batch of pods from apply to Ready, and the CPU seconds of whoever reconciled them."""

    course: Course
    cpu: float


async def floor_creates(world: World, count: int, name: str) -> Creation:
    """The floor's batch."""
    organization = await world.organization(name, count)
    async with world.namespace(name) as kube, world.floor(name, organization) as floor:
        before = usage(floor.pid).cpu
        course = await apply_until_ready(kube, count)
        return Creation(course, usage(floor.pid).cpu - before)


async def operator_creates(world: World, operator: Operator, count: int, name: str) -> tuple[Creation, list[Write]]:
    """The operator's batch, and its Kubernetes writes on GpuPods from the API server's audit log."""
    organization = await world.organization(name, count)
    async with world.namespace(name) as kube:
        await world.account(kube, organization)
        position = world.plane.audit.position()
        before = usage(operator.process.pid).cpu
        course = await apply_until_ready(kube, count)
        creation = Creation(course, usage(operator.process.pid).cpu - before)
        await asyncio.sleep(2)  # audit lines follow a little after the replies
        return creation, workload_writes(world.plane.writes_by(OPERATOR_USER, position))


def workload_writes(writes: list[Write]) -> list[Write]:
    """Without what is written whatever the objects do: the Lease; and who it is asked for, of which nothing is kept."""
    return [write for write in writes if write.resource not in {"leases", "selfsubjectreviews"}]


@dataclass(frozen=True, slots=True)
class Quiet:
    """A time in which nothing happened."""

    seconds: float
    core_share: float
    resident: int
    writes: Counter[str]


async def settled(world: World, operator: Operator, seconds: float) -> Quiet:
    """What the operator costs while all of its objects are as asked."""
    position, before, started = world.plane.audit.position(), usage(operator.process.pid), time.monotonic()
    await asyncio.sleep(seconds)
    took, after = time.monotonic() - started, usage(operator.process.pid)
    writes = workload_writes(world.plane.writes_by(OPERATOR_USER, position))
    return Quiet(took, (after.cpu - before.cpu) / took, after.resident, Counter(write.resource for write in writes))


@dataclass(frozen=True, slots=True)
class Latency:
    """From a webhook received to its status written, in seconds, by the operator's own histogram."""

    events: float
    p50: float
    p99: float


async def webhook_latency(world: World, operator: Operator, per_second: float, seconds: float) -> Latency:
    """Replicas that turn unhealthy and healthy again, at so many events a second."""
    organization = await world.organization("hooks", CLUSTERS * 2)
    async with world.namespace("hooks") as kube:
        await world.account(kube, organization)
        replicas = await _clusters(kube, organization)
        before = await _histogram(operator)
        await _toggle(world, replicas, per_second / EVENTS_PER_TOGGLE, seconds)
        await asyncio.sleep(3)
        return _latency(before, await _histogram(operator))


async def _clusters(kube: Kube, organization: Organization) -> list[tuple[str, str]]:
    """Cluster and replica ids of so many running clusters."""
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
    """Cumulative counts by upper bound."""
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
