"""What a container prints is the tenant's to read and to follow, through the API server from the node's kubelet."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web

from relay_localcloud.runtimes.kubernetes.names import name_of
from tests.cluster.kubernetes_runtime.served import own_address
from tests.support.certificates import write_serving_certificate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.cluster.kubernetes_runtime.served import Served

LINES = "2026-11-24T10:00:00.000000001Z first\n2026-11-24T10:00:01.000000001Z second\n"


@dataclass
class Kubelet:
    """Answers what API servers ask the kubelet of a node for logs."""

    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    goes_on: asyncio.Event = field(default_factory=asyncio.Event)
    lines: bytes = LINES.encode()

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append((request.path, dict(request.query)))
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(self.lines)
        if "follow" in request.query:
            await self.goes_on.wait()
            await response.write(b"2026-11-24T10:00:02Z third\n")
        return response


@asynccontextmanager
async def kubelet_of(served: Served, folder: Path) -> AsyncIterator[Kubelet]:
    """That of the stage's node."""
    write_serving_certificate(folder)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(folder / "apiserver.crt", folder / "apiserver.key")
    kubelet, address = Kubelet(), own_address()
    runner = web.ServerRunner(web.Server(kubelet), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, address, 0, ssl_context=tls).start()
    where = {
        "addresses": [{"type": "InternalIP", "address": address}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": runner.addresses[0][1]}},
    }
    await served.kube.patch("Node", served.product.lower(), {"status": where}, subresource="status")
    yield kubelet
    await runner.cleanup()


async def test_a_log_is_read_and_followed(served: Served, tmp_path: Path) -> None:
    async with kubelet_of(served, tmp_path) as kubelet:
        pod_id = await served.runs()
        url = f"{served.organization.management_url}/v1/vms/{pod_id}/logs"
        headers = {"Authorization": f"Bearer {served.organization.api_key}"}
        async with aiohttp.ClientSession(headers=headers) as session:
            async with session.get(url, params={"tail": 2}) as reply:
                assert (reply.status, reply.content_type, await reply.text()) == (200, "text/plain", LINES)
            path = f"/containerLogs/{served.namespace}/{name_of(pod_id)}/main"
            assert kubelet.asked == [(path, {"tailLines": "2", "timestamps": "true"})]
            async with session.get(url, params={"follow": "true"}) as reply:
                assert await reply.content.readexactly(len(LINES)) == LINES.encode()
                kubelet.goes_on.set()
                assert await reply.content.read() == b"2026-11-24T10:00:02Z third\n"
        items = (await served.cloud.control.call("GET", f"/workloads/{pod_id}/logs"))["items"]
        assert items[1] == {"at": "2026-11-24T10:00:01.000000001Z", "source": "container", "line": "second"}


async def test_a_followed_log_begins_before_its_container_prints(served: Served, tmp_path: Path) -> None:
    async with kubelet_of(served, tmp_path) as kubelet:
        kubelet.lines, pod_id = b"", await served.runs()
        url = f"{served.organization.management_url}/v1/vms/{pod_id}/logs"
        headers = {"Authorization": f"Bearer {served.organization.api_key}"}
        async with aiohttp.request("GET", url, params={"follow": "true"}, headers=headers) as reply:
            assert reply.status == 200
            kubelet.goes_on.set()
            assert await reply.content.read() == b"2026-11-24T10:00:02Z third\n"


async def test_a_followed_log_breaks_off_once_its_key_is_revoked(served: Served, tmp_path: Path) -> None:
    async with kubelet_of(served, tmp_path):
        pod_id, keys = await served.runs(), f"/v1/orgs/{served.organization.id}/api-keys"
        made = await served.organization.call("POST", f"{keys}/create", {"name": "revoked"})
        url = f"{served.organization.management_url}/v1/vms/{pod_id}/logs"
        headers = {"Authorization": f"Bearer {made['key']}"}
        async with aiohttp.request("GET", url, params={"follow": "true"}, headers=headers) as reply:
            assert await reply.content.readexactly(len(LINES)) == LINES.encode()
            await served.organization.call("DELETE", f"{keys}/{made['id']}")
            with pytest.raises(aiohttp.ClientPayloadError):
                await reply.content.read()


async def test_a_pod_that_does_not_run_has_an_empty_log(served: Served) -> None:
    pod_id = await served.post()
    await served.pod(pod_id)
    url = f"{served.organization.management_url}/v1/vms/{pod_id}/logs"
    headers = {"Authorization": f"Bearer {served.organization.api_key}"}
    async with aiohttp.ClientSession(headers=headers) as session, session.get(url) as reply:
        assert (reply.status, await reply.text()) == (200, "")
