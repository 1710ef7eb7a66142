"""A request's head has bounds: what is longer is refused before it costs memory, and what never ends is ended."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

from relay_localcloud.http.connections import LARGEST_HEAD, MOST_HEADERS
from tests.localcloud.support.server import request
from tests.support.eventually import PATIENCE_SECONDS, eventually

if TYPE_CHECKING:
    from tests.localcloud.support.server import Server

PORTS = ("managementUrl", "inferenceUrl")
ENDLESS = 64 * 2**20
LONGEST_END_SECONDS = 60
"""Less than an idle connection is kept open for."""
_START = b"GET /v1/nothing HTTP/1.1\r\nHost: a\r\n"


async def opened(server: Server, port: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, number = server.ready[port].removeprefix("http://").rpartition(":")
    return await asyncio.open_connection(host, int(number))


async def answer_to(server: Server, port: str, raw: bytes) -> bytes:
    """The first line of the answer; the connection stays open for what comes after it until it was read."""
    reader, writer = await opened(server, port)
    try:
        writer.write(raw)
        return await reader.readline()
    finally:
        writer.close()


def head_of(size: int) -> bytes:
    """A whole head of so many bytes."""
    around = _START + b"X-Long: " + b"\r\n\r\n"
    return _START + b"X-Long: " + b"x" * (size - len(around)) + b"\r\n\r\n"


@pytest.mark.parametrize("port", PORTS)
@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (_START + b"X-A: b\r\n" * (MOST_HEADERS - 1) + b"\r\n", b"404"),
        (_START + b"X-A: b\r\n" * MOST_HEADERS + b"\r\n", b"431"),
        (_START + b"X-A: b\r\n" * 10 * MOST_HEADERS + b"\r\n", b"431"),
        (_START + b"X-Long: " + b"x" * 2 * LARGEST_HEAD, b"431"),
        (b"GET /" + b"x" * 2 * LARGEST_HEAD, b"431"),
        (head_of(LARGEST_HEAD - 1), b"404"),
    ],
    ids=["the most headers", "one more", "many more", "a header without end", "a path without end", "the largest"],
)
async def test_a_head_has_bounds(server: Server, port: str, raw: bytes, status: bytes) -> None:
    assert (await answer_to(server, port, raw)).split()[1] == status
    assert (await request("GET", server.ready[port] + "/v1/nothing")).status in {401, 404}
    assert "Traceback" not in server.log


async def pour(writer: asyncio.StreamWriter) -> None:
    """Sends a head that never ends, up to a size that no server should take."""
    writer.write(_START + b"X-Long: ")
    for _ in range(ENDLESS // 2**16):
        writer.write(b"x" * 2**16)
        await writer.drain()


@pytest.mark.parametrize("port", PORTS)
async def test_an_endless_head_is_read_no_further_than_its_bound(server: Server, port: str) -> None:
    _, writer = await opened(server, port)
    with pytest.raises(ConnectionError):
        await pour(writer)
    writer.close()


async def test_a_head_that_begins_before_the_last_answer_is_out_ends_its_connection_too(server: Server) -> None:
    delay = {"operation": "GET /v1/locations", "effect": {"delaySeconds": 1}, "count": 1}
    await server.ok("POST", "/faults", delay)
    reader, writer = await opened(server, "managementUrl")
    key = server.ready["apiKey"].encode()
    writer.write(b"GET /v1/locations HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " + key + b"\r\n\r\n")
    await eventually(lambda: server.ok("GET", "/faults"), lambda kept: kept["items"][-1]["seen"], what="the request")
    writer.write(_START)
    answers = await reader.read()
    assert answers.startswith(b"HTTP/1.1 200 ")
    assert b"HTTP/1.1 408 " in answers
    assert "Traceback" not in server.log
    writer.close()


async def test_a_second_head_on_a_connection_has_the_same_bounds(server: Server) -> None:
    reader, writer = await opened(server, "managementUrl")
    writer.write(_START + b"\r\n")
    first = await reader.readuntil(b"\r\n\r\n")
    assert b" 404 " in first
    writer.write(_START + b"X-Long: " + b"x" * 2 * LARGEST_HEAD)
    rest = await reader.read()
    assert b"HTTP/1.1 431 " in rest
    writer.close()


async def test_requests_that_come_together_are_answered_one_after_another(server: Server) -> None:
    together = 400
    raw = _START + b"X-Pad: " + b"x" * 400 + b"\r\n\r\n"
    last = _START + b"Connection: close\r\n\r\n"
    reader, writer = await opened(server, "managementUrl")
    writer.write(raw * together + last)
    answers = await reader.read()
    assert answers.count(b"HTTP/1.1 404 ") == together + 1
    writer.close()


async def test_a_head_that_is_refused_while_an_answer_is_under_way_ends_the_connection(server: Server) -> None:
    delay = {"operation": "GET /v1/locations", "effect": {"delaySeconds": PATIENCE_SECONDS}, "count": 1}
    await server.ok("POST", "/faults", delay)
    reader, writer = await opened(server, "managementUrl")
    key = server.ready["apiKey"].encode()
    writer.write(b"GET /v1/locations HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " + key + b"\r\n\r\n")
    writer.write(_START + b"X-Long: " + b"x" * 2 * LARGEST_HEAD)
    async with asyncio.timeout(LONGEST_END_SECONDS):
        with contextlib.suppress(ConnectionResetError):
            assert b"HTTP/1.1 431 " not in await reader.read(), "it would be taken for the first request's answer"
    assert (await request("GET", server.url + "/v1/locations", key=server.ready["apiKey"])).status == 200
    assert "Traceback" not in server.log
    writer.close()
