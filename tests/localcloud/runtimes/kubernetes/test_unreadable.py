"""A Pod that is too full of lists to be read is seen to exist, so that it ends and keeps its GPUs until then."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp import web

from relay_kube.kube import ApiAccess, Kube
from relay_kube.nesting import MOST
from relay_localcloud.runtimes.kubernetes.holdings import Standing
from relay_localcloud.runtimes.kubernetes.names import name_of
from relay_localcloud.runtimes.kubernetes.pods import Pods
from relay_localcloud.runtimes.kubernetes.situations import Step
from tests.localcloud.runtimes.kubernetes.rows import MACHINE
from tests.localcloud.support.gateway import Upstream

if TYPE_CHECKING:
    from relay_localcloud.runtimes.kubernetes.observed import Pod
    from tests.localcloud.runtimes.kubernetes.rows import Rows


async def as_listed(*pods: dict[str, Any]) -> Pods:
    """What a cluster with these Pods shows once it has listed them."""

    async def respond(request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            await asyncio.Event().wait()
        return web.json_response({"metadata": {"resourceVersion": "9"}, "items": pods})

    async with Upstream(respond) as server, aiohttp.ClientSession() as session:
        seen = Pods(Kube(ApiAccess(server.url, session)), lambda _: None)
        running = asyncio.create_task(seen.mirror.run())
        await seen.mirror.listed()
        running.cancel()
        await asyncio.wait([running])
        return seen


def full(pod: Pod) -> dict[str, Any]:
    """The Pod as an API server has it, with more variables than are read."""
    raw = pod.model_dump(by_alias=True, mode="json", exclude_none=True)
    raw["metadata"] |= {"resourceVersion": "7", "creationTimestamp": "2026-11-24T10:00:00Z"}
    raw["status"]["startTime"] = "2026-11-24T10:00:01Z"
    raw["status"]["containerStatuses"] = []
    raw["spec"]["containers"][0]["env"] = [{"name": f"V{number}", "value": ""} for number in range(MOST)]
    return raw


async def test_a_pod_that_cannot_be_read_is_on_its_node_and_ends_when_its_holder_does(room: Rows) -> None:
    replica = room.replica(room.cluster())
    seen = await as_listed(full(room.running(replica.id)))
    (pod,) = seen.mirror
    assert list(seen.on(MACHINE.name)) == [pod]
    assert pod.spec.containers == ()
    room.pods[name_of(replica.id)] = pod
    assert room.turn(replica.id).step is Step.NOTHING
    room.stop(replica.group_id)
    turn = room.turn(replica.id)
    assert (turn.holding.standing, turn.step, turn.uid) == (Standing.REST, Step.END, pod.metadata.uid)
    room.end(replica.group_id)
    turn = room.turn(replica.id)
    assert (turn.holding.standing, turn.step, turn.uid) == (Standing.END, Step.END, pod.metadata.uid)
