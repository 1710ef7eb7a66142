"""What comes after a request's head has bounds too: trailers, requests that are pipelined, bodies without an end."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import pytest
import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse
from uvicorn.server import ServerState

import relay_localcloud.app  # noqa: F401 - every table, as in the running cloud
from relay_localcloud.http.connections import LARGEST_HEAD, Connection
from relay_localcloud.http.visitors import Visitors
from relay_localcloud.kernel.store import Store
from tests.support.eventually import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import Receive, Scope, Send

PIPELINED = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
CHUNKED = b" / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
ENDLESS = 16 * 2**20
MOST_WAITING = 1000
ANSWERED = b"HTTP/1.1 200 OK\r\n"


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers a PUT once it has its body, everything else at once."""
    request = Request(scope, receive)
    size = len(await request.body()) if request.method == "PUT" else 0
    await JSONResponse({"size": size, "headers": sorted(request.headers)})(scope, receive, send)


class Served:
    """A port with these connections."""

    def __init__(self) -> None:
        self.config = uvicorn.Config(app, ws="none", lifespan="off", log_config=None, timeout_keep_alive=75)
        self.config.load()
        self.visitors, self.state, self.port = Visitors(Store.ephemeral()), ServerState(), 0
        self.connection: Connection | None = None

    def open(self) -> Connection:
        self.connection = Connection(self.visitors, self.config, self.state, {})
        return self.connection

    @asynccontextmanager
    async def visit(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        async with asyncio.timeout(PATIENCE_SECONDS):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            yield reader, writer
            writer.close()


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    opened = Served()
    server = await asyncio.get_running_loop().create_server(opened.open, "127.0.0.1", 0)
    opened.port = server.sockets[0].getsockname()[1]
    yield opened
    server.close()


async def pour(writer: asyncio.StreamWriter) -> None:
    """Send more than any server should take."""
    for _ in range(ENDLESS // 2**16):
        writer.write(b"x" * 2**16)
        await writer.drain()


@pytest.mark.parametrize("method", [b"GET", b"PUT"], ids=["after the answer", "before it"])
@pytest.mark.parametrize("part", [b"0\r\nX-Long: ", b"1;extension="], ids=["trailers", "a chunk's extension"])
async def test_what_is_no_body_is_read_no_further_than_its_bound(served: Served, method: bytes, part: bytes) -> None:
    async with served.visit() as (_, writer):
        writer.write(method + CHUNKED + part)
        with pytest.raises(ConnectionError):
            await pour(writer)


async def test_trailers_within_the_bound_are_dropped(served: Served) -> None:
    async with served.visit() as (reader, writer):
        trailers = b"X-Long: " + b"x" * (LARGEST_HEAD // 2) + b"\r\n" + b"Authorization: a\r\n" * 200
        writer.write((b"PUT" + CHUNKED + b"1\r\na\r\n0\r\n" + trailers + b"\r\n") * 2 + PIPELINED)
        for size in (b"1", b"1", b"0"):
            assert await reader.readline() == ANSWERED
            head, body = (await reader.readuntil(b"}")).split(b"\r\n\r\n")
            assert b'"size":' + size in body
            assert b"authorization" not in head + body


async def test_requests_in_a_body_of_many_chunks_are_answered(served: Served) -> None:
    """Together, the sizes of its chunks are longer than what may come between two of them."""
    async with served.visit() as (reader, writer):
        writer.write(b"PUT" + CHUNKED + b"1\r\na\r\n" * LARGEST_HEAD + b"0\r\n\r\n" + PIPELINED)
        for size in (str(LARGEST_HEAD).encode(), b"0"):
            assert b'"size":' + size in await reader.readuntil(b"}")


async def test_pipelined_requests_wait_unread(served: Served) -> None:
    async with served.visit() as (reader, writer):
        writer.write(PIPELINED * 1_000_000)
        for _ in range(500):
            await reader.readuntil(b"}")
            assert served.connection is not None
            assert len(served.connection.pipeline) < MOST_WAITING
        assert writer.transport.get_write_buffer_size() > 0, "the rest has not even been sent"


async def test_all_pipelined_requests_are_answered_with_bodies_of_every_size(served: Served) -> None:
    sizes = [0, 1, 300_000, 5, 70_000, 4096, 0, 1_000_000, 2] * 5
    async with served.visit() as (reader, writer):
        for size in sizes:
            writer.write(b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size)
        for size in sizes:
            assert b'"size":%d,' % size in await reader.readuntil(b"}")


@pytest.mark.parametrize(
    "framed",
    [b"Content-Length: %d\r\n\r\n%b", b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n"],
    ids=["of a length", "in chunks"],
)
@pytest.mark.parametrize("body", [PIPELINED, b"x" * 300_000, b""], ids=["like a request", "long", "empty"])
async def test_the_body_of_a_request_to_change_the_protocol_is_no_other_request(
    served: Served, framed: bytes, body: bytes
) -> None:
    if not body:
        framed = b"Content-Length: %d\r\n\r\n%b"
    asks = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
    head = b"PUT / HTTP/1.1\r\nHost: a\r\n" + asks
    async with served.visit() as (reader, writer):
        writer.write((head + framed % (len(body), body)) * 2 + PIPELINED)
        for size in (len(body), len(body), 0):
            assert b'"size":%d,' % size in await reader.readuntil(b"}")


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
async def test_a_connection_that_is_to_close_closes_after_a_request_to_change_the_protocol(
    served: Served, version: bytes
) -> None:
    head = b"PUT / HTTP/" + version + b"\r\nHost: a\r\nConnection: close, Upgrade\r\nUpgrade: TLS/1.2\r\n"
    async with served.visit() as (reader, writer):
        writer.write(head + b"Content-Length: 5\r\n\r\n" + b"x" * 5)
        assert b'"size":5,' in await reader.read()


async def ended(reader: asyncio.StreamReader) -> None:
    """Return once the other side has ended the connection, also if it did so while this side sent."""
    with suppress(ConnectionError):
        assert await reader.read() == b""


@pytest.mark.parametrize("rest", [b"", b"x", b"x" * 100], ids=["nothing", "a part of the body", "all of it"])
async def test_a_body_that_comes_after_its_answer_does_not_keep_the_connection(served: Served, rest: bytes) -> None:
    served.config.timeout_keep_alive = 1
    async with served.visit() as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n")
        await reader.readuntil(b"}")
        writer.write(rest)
        await ended(reader)


async def test_an_answer_that_precedes_a_long_body_is_read_though_its_connection_closes(served: Served) -> None:
    """The client sends all of its request before it reads, as most do."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE_SECONDS) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**16)
        head = b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % ENDLESS
        await asyncio.to_thread(client.sendall, head + b"x" * ENDLESS)
        answer = await asyncio.to_thread(client.makefile("rb").read)
    assert answer.startswith(ANSWERED)
    assert answer.endswith(b"}")


async def test_nor_does_one_that_comes_byte_by_byte(served: Served) -> None:
    served.config.timeout_keep_alive = 1
    async with served.visit() as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n")
        await reader.readuntil(b"}")
        reading = asyncio.create_task(ended(reader))
        while not reading.done():
            writer.write(b"x")
            await asyncio.wait([reading], timeout=0.05)
        await reading
