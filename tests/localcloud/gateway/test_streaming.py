"""Bodies that come piece by piece, at the pace of the slower end, and that break off."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from tests.localcloud.support.gateway import (
    Upstream,
    behind,
    connection,
    head_of,
    opening,
    refusal_of,
    running,
    set_upstream,
)
from tests.support.eventually import PATIENCE_SECONDS, eventually

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization, Server

MEBIBYTE = 2**20


class Memory:
    """How far a process's resident memory rises above where it was."""

    def __init__(self, server: Server) -> None:
        self._process = Path(f"/proc/{server.child.pid}")
        (self._process / "clear_refs").write_text("5")  # the peak is counted from here
        self._before = self._peak()

    def risen(self) -> int:
        """Bytes."""
        return self._peak() - self._before

    def _peak(self) -> int:
        status = (self._process / "status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024


async def test_events_arrive_while_the_upstream_still_speaks(organization: Organization, upstream: Upstream) -> None:
    heard: asyncio.Queue[None] = asyncio.Queue()

    async def respond(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for number in range(3):
            await response.write(f"data: {number}\n\n".encode())
            await heard.get()
        return response

    upstream.respond = respond
    workload = await behind(organization, upstream)
    async with connection(workload) as (reader, writer):
        writer.write(opening(workload))
        _, headers = await head_of(reader)
        assert headers["content-type"] == "text/event-stream"
        for number in range(3):
            assert f"data: {number}\n\n".encode() in await reader.readuntil(b"\n\n\r\n")
            heard.put_nowait(None)
        assert await reader.readuntil(b"0\r\n\r\n") == b"0\r\n\r\n"


async def test_a_chunked_body_arrives_piece_by_piece_and_is_answered_on_the_way(
    organization: Organization, upstream: Upstream
) -> None:
    async def respond(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        async for piece in request.content.iter_any():
            await response.write(piece.upper())
        return response

    upstream.respond = respond
    workload = await behind(organization, upstream)
    async with connection(workload) as (reader, writer):
        writer.write(opening(workload, "POST", "/", "Transfer-Encoding: chunked"))
        await head_of(reader)
        for piece in (b"one", b"two"):
            writer.write(b"3\r\n" + piece + b"\r\n")
            assert await reader.readuntil(piece.upper() + b"\r\n") == b"3\r\n" + piece.upper() + b"\r\n"
        writer.write(b"0\r\n\r\n")
        assert await reader.readuntil(b"0\r\n\r\n") == b"0\r\n\r\n"


async def test_a_body_that_waits_for_a_word_gets_it_once_the_key_was_seen(
    organization: Organization, upstream: Upstream
) -> None:
    async def respond(request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    upstream.respond = respond
    await set_upstream(organization.server, f"image-of-{organization.id}", upstream.url)
    workload = await running(organization, image=f"image-of-{organization.id}")
    waiting = ("Content-Length: 4", "Expect: 100-continue")
    async with connection(workload) as (reader, writer):
        writer.write(opening(workload, "POST", "/", *waiting))
        assert await refusal_of(reader) == (401, "unauthorized")
    async with connection(workload) as (reader, writer):
        writer.write(opening(workload, "POST", "/", *waiting, f"x-api-key: {organization.api_key}"))
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"body")
        assert (await head_of(reader))[0] == 200
        assert await reader.readexactly(4) == b"body"
    assert "expect" not in upstream.headers


async def test_a_client_that_reads_nothing_holds_the_upstream_back_and_takes_no_memory(
    organization: Organization, upstream: Upstream
) -> None:
    sent = 0

    async def respond(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse(headers={"Content-Length": str(256 * MEBIBYTE)})
        await response.prepare(request)
        for _ in range(256):
            await response.write(bytes(MEBIBYTE))
            sent += MEBIBYTE
        return response

    upstream.respond = respond
    workload = await behind(organization, upstream)
    assert (await workload.call("GET", "/", headers={"Host": "unknown.localhost"})).status == 404  # it is loaded
    memory = Memory(organization.server)
    async with connection(workload) as (reader, writer):
        writer.write(opening(workload))
        await head_of(reader)
        seen: list[int] = []

        async def held_back() -> bool:
            seen.append(sent)
            return len(seen) > 10 and seen[-1] == seen[-10] > 0

        await eventually(held_back, every=0.05)
        assert sent < 64 * MEBIBYTE
        received = 0
        while received < 256 * MEBIBYTE:
            piece = await reader.read(MEBIBYTE)
            assert piece, "it breaks off"
            received += len(piece)
    assert memory.risen() < 32 * MEBIBYTE


async def test_an_upstream_that_reads_nothing_holds_the_client_back_and_takes_no_memory(
    organization: Organization, upstream: Upstream
) -> None:
    reads = asyncio.Event()

    async def respond(request: web.Request) -> web.Response:
        await reads.wait()
        size = 0
        async for piece in request.content.iter_any():
            size += len(piece)
        return web.Response(text=str(size))

    upstream.respond = respond
    workload = await behind(organization, upstream)
    memory = Memory(organization.server)
    async with connection(workload) as (reader, writer):
        writer.write(opening(workload, "PUT", "/", f"Content-Length: {128 * MEBIBYTE}"))
        written = 0

        async def write() -> None:
            nonlocal written
            for _ in range(128):
                writer.write(bytes(MEBIBYTE))
                await writer.drain()
                written += MEBIBYTE

        writing = asyncio.create_task(write())
        seen: list[int] = []

        async def held_back() -> bool:
            seen.append(written)
            return len(seen) > 10 and seen[-1] == seen[-10] > 0

        await eventually(held_back, every=0.05)
        assert written < 64 * MEBIBYTE
        reads.set()
        await writing
        _, headers = await head_of(reader)
        assert await reader.readexactly(int(headers["content-length"])) == str(128 * MEBIBYTE).encode()
    assert memory.risen() < 32 * MEBIBYTE


async def test_the_echo_answers_large_bodies_without_memory(organization: Organization) -> None:
    workload = await running(organization, public=True)
    memory = Memory(organization.server)
    answer = await workload.call("POST", "/", raw=b"ab\xc3\xa9\n" * (4 * MEBIBYTE), headers={})
    assert answer.body["body"] == "ab\N{LATIN SMALL LETTER E WITH ACUTE}\n" * (4 * MEBIBYTE)
    assert memory.risen() < 16 * MEBIBYTE


async def test_a_client_that_goes_away_ends_the_request_upstream(
    organization: Organization, upstream: Upstream
) -> None:
    async def respond(_: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    upstream.respond = respond
    workload = await behind(organization, upstream)
    async with connection(workload) as (_, writer):
        writer.write(opening(workload))
        await eventually(lambda: asyncio.sleep(0, upstream.received), every=0.02)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await upstream.abandoned.wait()


@pytest.mark.parametrize("length", [("Content-Length", "100"), ("X-None", "1")])
async def test_an_answer_that_breaks_off_breaks_off_for_the_client_too(
    organization: Organization, upstream: Upstream, length: tuple[str, str]
) -> None:
    async def respond(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers=dict([length]))
        await response.prepare(request)
        await response.write(b"the beginning")
        assert request.transport is not None
        await asyncio.sleep(0)
        request.transport.close()
        return response

    upstream.respond = respond
    workload = await behind(organization, upstream)
    async with connection(workload) as (reader, writer):
        writer.write(opening(workload))
        assert (await head_of(reader))[0] == 200
        got = b""
        try:
            got = await reader.read()
        except ConnectionError:
            assert not got
        assert not got.endswith(b"0\r\n\r\n")
        assert len(got) < 100
