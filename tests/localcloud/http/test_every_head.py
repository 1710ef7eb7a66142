"""A head has the same bounds on every port and connection: to the byte, and within its time."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from relay_localcloud.http.connections import LARGEST_HEAD, MOST_HEADERS
from tests.localcloud.support.server import request
from tests.support.eventually import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.localcloud.support.server import Server

PORTS = ("managementUrl", "inferenceUrl", "gatewayUrl")
START = b"GET /v1/nothing HTTP/1.1\r\nHost: a\r\n"
WHOLE = START + b"\r\n"
NOT_FOUND, TOO_LATE = b"HTTP/1.1 404 Not Found", b"HTTP/1.1 408 Request Timeout"


@asynccontextmanager
async def opened(server: Server, port: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    async with asyncio.timeout(PATIENCE_SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(server.ready[port]).port)
        try:
            yield reader, writer
        finally:
            writer.close()


async def status_of(server: Server, port: str, raw: bytes) -> bytes:
    """Of the answer to these bytes."""
    async with opened(server, port) as (reader, writer):
        writer.write(raw)
        return (await reader.readline()).split()[1]


@pytest.mark.parametrize("port", ["managementUrl", "inferenceUrl"])
@pytest.mark.parametrize(("beyond", "status"), [(-1, b"404"), (0, b"404"), (1, b"431")])
async def test_a_head_is_bounded_to_the_byte(server: Server, port: str, beyond: int, status: bytes) -> None:
    in_path = b"GET /" + b"x" * 30_000 + b" HTTP/1.1\r\nHost: a\r\n"
    for start in (START, in_path):
        around = start + b"X-Long: \r\n\r\n"
        raw = start + b"X-Long: " + b"x" * (LARGEST_HEAD + beyond - len(around)) + b"\r\n\r\n"
        assert await status_of(server, port, raw) == status


@pytest.mark.parametrize(("headers", "status"), [(-1, b"404"), (0, b"404"), (1, b"400"), (10_000, b"400")])
async def test_a_head_to_the_gateway_has_as_many_headers_as_any_other(
    server: Server, headers: int, status: bytes
) -> None:
    raw = START + b"X-A: b\r\n" * (MOST_HEADERS - 1 + headers) + b"\r\n"
    assert await status_of(server, "gatewayUrl", raw) == status


@pytest.mark.parametrize("start", [b"GET /", START + b"X-Long: ", START])
async def test_the_gateway_reads_a_head_no_further_than_its_bound(server: Server, start: bytes) -> None:
    part = b"X-A: " + b"x" * (LARGEST_HEAD // 2) + b"\r\n" if start == START else b"x" * (LARGEST_HEAD // 2)
    answer = b""
    async with opened(server, "gatewayUrl") as (reader, writer):
        writer.write(start + 4 * part)
        with suppress(ConnectionError):  # it ends while this still sends
            answer = await reader.read()
    assert TOO_LATE not in answer
    assert (await request("GET", server.ready["gatewayUrl"] + "/v1/nothing")).status == 404
    assert "Traceback" not in server.log


async def test_a_head_that_does_not_come_ends_its_connection_on_every_port(server: Server) -> None:
    """All at once, since each takes as long as a head may; many, since some begin before the answer has ended."""

    async def end_of(port: str, first: bytes, part: bytes) -> tuple[bytes, bytes]:
        async with opened(server, port) as (reader, writer):
            writer.write(first)
            answered = (await reader.readuntil(b"\r\n"))[:-2] if first else b""
            writer.write(part)
            return answered, await reader.read()

    cases = [(port, *sent) for port in PORTS for sent in ((b"", b""), (b"", START), *[(WHOLE, START)] * 30)]
    for (_, first, part), (answered, rest) in zip(
        cases, await asyncio.gather(*(end_of(*case) for case in cases)), strict=True
    ):
        assert (answered, TOO_LATE in rest) == (NOT_FOUND if first else b"", bool(part))
    assert "Traceback" not in server.log
