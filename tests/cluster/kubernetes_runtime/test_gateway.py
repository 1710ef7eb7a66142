"""A request to a running pod reaches its container, through the real API server, while that is its own."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from aiohttp import web

from relay_localcloud.runtimes.kubernetes.names import name_of
from tests.cluster.kubernetes_runtime import groups
from tests.cluster.kubernetes_runtime.served import own_address
from tests.cluster.kubernetes_runtime.stage import now
from tests.support.eventually import PATIENCE_SECONDS, eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.cluster.kubernetes_runtime.served import Served


@asynccontextmanager
async def container(address: str) -> AsyncIterator[int]:
    """A server as a container has one: it says what it was sent, or goes on for ever; its port."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/stream":
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b"begun")
            await asyncio.Event().wait()
        if request.path == "/socket":
            near = web.WebSocketResponse()
            await near.prepare(request)
            async for message in near:
                await near.send_str(f"heard {message.data}")
            return near
        return web.json_response({"path": request.path_qs, "headers": dict(request.headers)})

    runner = web.ServerRunner(web.Server(answer, handler_cancellation=True), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, address, 0)
    await site.start()
    yield int(runner.addresses[0][1])
    await runner.cleanup()


@asynccontextmanager
async def calling(served: Served, pod_id: str) -> AsyncIterator[aiohttp.ClientSession]:
    """A client with the organization's key, whose paths are the pod's own."""
    base = f"http://127.0.0.1:{served.ports.gateway}/_w/{pod_id}/"
    headers = {"x-api-key": served.organization.api_key}
    async with aiohttp.ClientSession(base, headers=headers) as session:
        yield session


async def test_a_request_reaches_the_container_and_nobody_acts_as_the_cloud(served: Served) -> None:
    served.address = own_address()
    async with container(served.address) as port:
        pod_id = await served.runs(httpPort=port)
        async with calling(served, pod_id) as session:
            sent = {"Impersonate-User": "system:anonymous", "X-Remote-User": "nobody", "Authorization": "Basic x"}
            async with session.get("hello?a=b", headers=sent) as reply:
                said: dict[str, Any] = json.loads(await reply.text())
            assert (reply.status, said["path"]) == (200, "/hello?a=b")
            assert not {"Authorization", "Impersonate-User", "X-Remote-User", "X-Api-Key"} & said["headers"].keys()
            async with session.ws_connect("socket") as far:
                await far.send_str("this")
                assert (await far.receive_str(timeout=PATIENCE_SECONDS)) == "heard this"


async def test_a_path_leads_to_nothing_else_of_the_api_server(served: Served) -> None:
    served.address = own_address()
    async with container(served.address) as port:
        pod_id = await served.runs(httpPort=port)
        for path in ("../../../secrets", "%2e%2e/%2E%2e/x", "a%2F..%2Fb"):
            reader, writer = await asyncio.open_connection("127.0.0.1", served.ports.gateway)
            key = f"x-api-key: {served.organization.api_key}"
            writer.write(f"GET /_w/{pod_id}/{path} HTTP/1.1\r\nHost: localhost\r\n{key}\r\n\r\n".encode())
            assert (await reader.readline()).split()[1] == b"400", path
            writer.close()


async def test_what_passes_ends_with_the_pod_that_it_went_to(served: Served) -> None:
    served.address = own_address()
    async with container(served.address) as port:
        pod_id = await served.runs(httpPort=port)
        async with calling(served, pod_id) as session:
            async with session.get("stream") as reply:
                assert await reply.content.readexactly(5) == b"begun"
                await served.kubelet_removes(name_of(pod_id))
                with pytest.raises(aiohttp.ClientPayloadError):
                    await asyncio.wait_for(reply.content.read(), PATIENCE_SECONDS)

            async def status() -> int:
                async with session.get("hello") as answer:
                    return answer.status

            await eventually(status, lambda seen: seen == 503, what="no container runs")
            await served.pod(pod_id)
            await served.scheduler_binds(pod_id)
            await served.kubelet_runs(pod_id)
            await eventually(status, lambda seen: seen == 200, what="the next container answers")


async def test_a_request_to_a_cluster_reaches_a_replica_that_is_healthy(served: Served) -> None:
    served.address = own_address()
    async with container(served.address) as port:
        cluster_id, (one, other) = await groups.running(served, containerPort=port, replicaCount=2)
        async with calling(served, cluster_id) as session:

            async def statuses() -> set[int]:
                replies = [await session.get("hello") for _ in range(4)]
                return {reply.status for reply in replies}

            assert await statuses() == {200}
            await served.kubelet_says(one, ready=False, state={"running": {"startedAt": now()}})
            await groups.becomes(served, cluster_id, "degraded", "Failing health checks")
            assert await statuses() == {200}
            await served.kubelet_says(other, ready=False, state={"running": {"startedAt": now()}})
            await eventually(statuses, lambda seen: seen == {503}, what="no replica is healthy")
