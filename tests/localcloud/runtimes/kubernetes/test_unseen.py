"""What goes while its API server cannot be reached is billed until that was last heard, not until it answers again."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from aiohttp import web

from relay_kube.kube import ApiAccess, Kube
from relay_localcloud.kernel.instants import HOUR, seconds
from relay_localcloud.runtimes.kubernetes.names import CLOUD_ID, INSTANCE, START, name_of, namespace_of
from relay_localcloud.runtimes.kubernetes.reconcile import Reconciler
from relay_localcloud.runtimes.kubernetes.regions import Region, Regions
from relay_localcloud.runtimes.kubernetes.tenants import Gateway
from relay_localcloud.runtimes.kubernetes.wanted import Terms
from relay_wire.pods import PodStatus
from tests.localcloud.support.gateway import Upstream
from tests.support.eventually import PATIENCE_SECONDS, eventually

if TYPE_CHECKING:
    from tests.localcloud.runtimes.kubernetes.rows import Rows


@dataclass
class Cluster:
    """An API server that has these Pods, and whose watches end as it says."""

    pods: list[dict[str, Any]]
    version: int = 1
    told: list[dict[str, Any]] = field(default_factory=list)
    """What the watches of Pods tell before they end."""
    breaks: asyncio.Event = field(default_factory=asyncio.Event)
    """Set: watches end, with an error if they have told nothing."""

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        are_pods = request.path == "/api/v1/pods"
        if "watch" not in request.query:
            items = self.pods if are_pods else []
            return web.json_response({"metadata": {"resourceVersion": str(self.version)}, "items": items})
        if not are_pods or request.query["resourceVersion"] != "1":
            await asyncio.Event().wait()
        await self.breaks.wait()
        if not self.told:
            raise web.HTTPServiceUnavailable
        answer = web.StreamResponse()
        await answer.prepare(request)
        for event in self.told:
            await answer.write((web.json_response(event).text or "").encode() + b"\n")
        return answer


def pod_of(room: Rows, pod_id: str) -> dict[str, Any]:
    """Its Pod, as the API server has it."""
    metadata = {
        "name": name_of(pod_id),
        "namespace": namespace_of(room.organization_id),
        "uid": "u",
        "resourceVersion": "1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {INSTANCE: room.offer.terms.instance, CLOUD_ID: pod_id},
        "annotations": {START: "1"},
    }
    return {"metadata": metadata, "spec": {}, "status": {"phase": "Running"}}


async def gateway() -> Gateway:
    """Where requests come from, as no cluster says it."""
    return Gateway()


@pytest.mark.parametrize(
    ("seen", "status"), [(True, PodStatus.RUNNING), (False, PodStatus.DEPLOYING)], ids=["seen", "unseen"]
)
async def test_a_pod_whose_deletion_no_watch_told_is_held_up_and_billed_until_the_api_server_was_last_heard(
    room: Rows, seen: bool, status: PodStatus
) -> None:
    room.offer = replace(room.offer, terms=Terms("mine", "fast"))
    clock = room.now
    room.now -= HOUR
    pod_id, began = room.pod(), room.now
    room.runs(pod_id)
    room.now = clock
    pod = pod_of(room, pod_id)
    cluster = Cluster([pod])

    async def said() -> str | None:
        return room.workload(pod_id).status_reason

    async with Upstream(cluster) as server, aiohttp.ClientSession() as session:
        kube = Kube(ApiAccess(server.url, session))
        regions = Regions(room.store, {})
        reconciler = Reconciler(room.store, kube, room.offer, gateway, [], regions, is_region=False)
        regions.join("cluster", Region(kube, reconciler, None))
        running = asyncio.create_task(reconciler.run())

        async def met() -> bool:
            return pod_id in reconciler._met

        await eventually(met, what="it had a turn")
        cluster.pods, cluster.version = [], 2
        if seen:
            gone = {**pod, "metadata": {**pod["metadata"], "resourceVersion": "2"}}
            cluster.told = [{"type": "DELETED", "object": gone}]
        cluster.breaks.set()
        await eventually(said, lambda words: words == "Its Pod was deleted.", what="that it is gone is known")
        running.cancel()
        await asyncio.wait([running])
    assert room.workload(pod_id).status is status
    ((since, until),) = room.billed(pod_id)
    assert since == began
    if seen:
        assert until is None
    else:
        assert until is not None
        assert clock - seconds(PATIENCE_SECONDS) < until < clock
