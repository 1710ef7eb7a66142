"""Compares GpuPods with as many Requests of provider-http: time until Ready, CPU, requests, and what is stuck."""

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from bench.extent import Extent
from bench.measurements import workload_writes
from bench.objects import APPLIERS, until_all
from bench.peers.provider_http import NAME, REQUEST, is_ready, provider_http, request, user
from bench.progress import say
from bench.results import Row
from bench.usage import usage
from bench.world import OPERATOR_USER, World, world
from tests.support.kube import Kube, Manifest
from tests.support.localcloud import Organization
from tests.support.manifests import gpu_pod, ready
from tests.support.process import Process

WITHIN = 240.0
"""Seconds after which an object that is not Ready counts as stuck."""


@dataclass(frozen=True, slots=True)
class Course:
    """The measurement of a batch: seconds until all objects were Ready or the time was up, and CPU seconds."""

    seconds: float
    ready: int
    last: float
    """Seconds until the last object that became Ready was Ready."""
    cpu: float
    requests: int
    writes: int


async def peer_rows(extent: Extent) -> list[Row]:
    """Measures ours first, then theirs, on the same servers."""
    assert extent.provider_http is not None
    count = extent.objects
    with tempfile.TemporaryDirectory(prefix="relay-bench-") as folder:
        async with world(Path(folder)) as servers:
            organization = await servers.organization("ours", count)
            async with servers.namespace("ours") as kube, servers.operator() as operator:
                await servers.account(kube, organization)
                say(f"{count} GpuPods")
                pods = (gpu_pod(f"pod-{number:05}", model="h100") for number in range(count))
                party = _Party(servers, kube, organization, operator.process, OPERATOR_USER)
                ours = await party.course("GpuPod", pods, count, ready)
            organization = await servers.organization("theirs", count + 1)
            async with (
                servers.namespace("theirs") as kube,
                provider_http(servers, kube, extent.provider_http, organization.api_key) as process,
            ):
                say(f"{count} Requests of {NAME}, at most {WITHIN:g} s")
                url = servers.cloud.management_url
                requests = (request(f"pod-{number:05}", kube.namespace, url) for number in range(count))
                party = _Party(servers, kube, organization, process, user(kube.namespace))
                theirs = await party.course(REQUEST, requests, count, is_ready, before=1)
    return _rows(count, ours, theirs)


def _rows(count: int, ours: Course, theirs: Course) -> list[Row]:
    def each(ours: float, theirs: float, unit: str) -> str:
        return f"{ours / count:.1f}{unit}, {theirs / count:.1f}{unit}"

    def until(course: Course) -> str:
        stuck = "" if course.ready == count else f" for {course.ready}, the others never"
        return f"{course.last:.1f} s{stuck}"

    faster, cpu = theirs.seconds / ours.seconds, ours.cpu / theirs.cpu
    return [
        (
            f"{count} pods, apply to Ready: ours, and {NAME}'s",
            f"{until(ours)}; {until(theirs)} within {WITHIN:g} s: {faster:.0f} x",
            "at least 20 x",
        ),
        ("CPU an object", f"{each(ours.cpu * 1e3, theirs.cpu * 1e3, ' ms')}: {cpu:.2f} x", "0.1 x"),
        (f"Ready within {WITHIN:g} s", f"{ours.ready}, {theirs.ready}", f"{count}"),
        ("requests to the cloud an object", each(ours.requests, theirs.requests, ""), ""),
        ("Kubernetes writes an object, Events included", each(ours.writes, theirs.writes, ""), ""),
    ]


@dataclass(frozen=True, slots=True)
class _Party:
    """One side of the comparison: its process, its user in the audit log, its namespace and its organization."""

    servers: World
    kube: Kube
    organization: Organization
    process: Process
    user: str

    async def course(
        self,
        kind: str,
        manifests: Iterable[Manifest],
        count: int,
        wanted: Callable[[Manifest], bool],
        before: int = 0,
    ) -> Course:
        """Creates the manifests and measures until `wanted` accepts all; `before` objects existed and are accepted."""
        position, sent = self.servers.plane.audit.position(), len(await self._requests())
        cpu, started = usage(self.process.pid).cpu, time.monotonic()
        at: dict[str, float] = {}

        def noted(item: Manifest) -> bool:
            if wanted(item):
                at.setdefault(item["metadata"]["name"], time.monotonic() - started)
            return wanted(item)

        seen = asyncio.create_task(until_all(self.kube, kind, before + count, noted))
        waiting = iter(manifests)

        async def applier() -> None:
            for manifest in waiting:
                await self.kube.create(manifest)

        await asyncio.gather(*(applier() for _ in range(APPLIERS)))
        await asyncio.wait({seen}, timeout=started + WITHIN - time.monotonic())
        seconds, spent = time.monotonic() - started, usage(self.process.pid).cpu - cpu
        seen.cancel()
        await asyncio.sleep(2)  # audit lines appear shortly after the replies
        writes = len(workload_writes(self.servers.plane.writes_by(self.user, position)))
        return Course(seconds, len(at) - before, max(at.values()), spent, len(await self._requests()) - sent, writes)

    async def _requests(self) -> list[dict[str, object]]:
        return await self.servers.cloud.control.requests(organization=self.organization)
