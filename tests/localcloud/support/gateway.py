"""Workloads behind the gateway, an upstream that behaves as a test says, and connections byte by byte."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from aiohttp import web

from tests.localcloud.support.server import UNSENT, request
from tests.localcloud.support.workloads import own_node, record, running_pod
from tests.support.eventually import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from types import TracebackType

    from tests.localcloud.support.server import Answer, Organization, Server

HANDSHAKE = (
    "Connection: upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)
"""Headers that open a WebSocket."""


async def _hello(_: web.Request) -> web.StreamResponse:
    return web.Response(text="hello from the workload")


@dataclass
class Upstream:
    """Listens on a free port and answers as `respond` says; keeps what it was asked, and whose clients went away."""

    respond: Callable[[web.Request], Awaitable[web.StreamResponse]] = _hello
    received: list[web.Request] = field(default_factory=list)
    abandoned: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a request's client went away before its answer was complete."""
    url: str = ""
    _runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        application = web.Application(client_max_size=2**30)
        application.router.add_route("*", "/{tail:.*}", self._take)
        self._runner = web.AppRunner(
            application, shutdown_timeout=0.1, handler_cancellation=True, auto_decompress=False, access_log=None
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _take(self, request: web.Request) -> web.StreamResponse:
        self.received.append(request)
        try:
            return await self.respond(request)
        except (asyncio.CancelledError, ConnectionError):
            self.abandoned.set()
            raise

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the last request, in lowercase."""
        return {name.lower(): value for name, value in self.received[-1].headers.items()}


@asynccontextmanager
async def endless() -> AsyncIterator[str]:
    """The URL of a server that answers a request with 102 again and again, until it is disconnected."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        with suppress(ConnectionError):
            while True:
                writer.write(b"HTTP/1.1 102 A\r\n\r\n" * 1000)
                await writer.drain()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def set_upstream(server: Server, image: str, url: str) -> None:
    """Let the server at `url` answer for the image's workloads."""
    assert await server.ok("POST", "/upstreams", {"image": image, "url": url}) == {"image": image, "url": url}


@dataclass(frozen=True)
class Workload:
    """A workload that runs, and its endpoint."""

    organization: Organization
    id: str
    host: str

    @property
    def gateway(self) -> str:
        return self.organization.server.ready["gatewayUrl"]

    async def call(self, method: str, path: str, body: object = UNSENT, **more: Any) -> Answer:
        """A request to its endpoint; with its organization's key unless a key or headers say otherwise."""
        if "headers" not in more:
            more.setdefault("key", self.organization.api_key)
        headers = {"Host": self.host, **more.pop("headers", {})}
        return await request(method, self.gateway + path, body, headers=headers, **more)

    async def echoed(self, method: str, path: str, **more: Any) -> Any:
        """What the echo saw."""
        answer = await self.call(method, path, **more)
        assert answer.status == 200, answer.raw
        return answer.body


async def endpoint(organization: Organization, workload_id: str) -> Workload:
    """The endpoint of a pod or a VM."""
    url = (await record(organization, workload_id))["endpointUrl"]
    return Workload(organization, workload_id, urlsplit(url).netloc)


async def running(organization: Organization, **fields: object) -> Workload:
    """A pod that runs on a node of its organization's own, and its endpoint."""
    await own_node(organization)
    return await endpoint(organization, await running_pod(organization, **fields))


async def behind(organization: Organization, upstream: Upstream, **fields: object) -> Workload:
    """A public pod whose image the upstream answers for."""
    await set_upstream(organization.server, f"image-of-{organization.id}", upstream.url)
    return await running(organization, image=f"image-of-{organization.id}", public=True, **fields)


def opening(workload: Workload, method: str = "GET", path: str = "/", *headers: str) -> bytes:
    """The head of a request to a public workload."""
    return "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {workload.host}", *headers, "", ""]).encode("latin-1")


@asynccontextmanager
async def connection(workload: Workload) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to the gateway, for requests byte by byte."""
    address = urlsplit(workload.gateway)
    async with asyncio.timeout(PATIENCE_SECONDS):
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        try:
            yield reader, writer
        finally:
            writer.close()


async def head_of(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    """The status and the headers of the answer that comes next, names in lowercase."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines[1:-2])
    return int(lines[0].split()[1]), {name.lower(): value for name, value in headers.items()}


async def refusal_of(reader: asyncio.StreamReader) -> tuple[int, str]:
    """Status and code of the gateway's own error that comes next."""
    status, headers = await head_of(reader)
    body = json.loads(await reader.readexactly(int(headers["content-length"])))
    assert sorted(body) == ["code", "error"]
    return status, body["code"]
