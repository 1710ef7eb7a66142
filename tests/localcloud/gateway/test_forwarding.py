"""Requests on their way to an upstream and its answers back, byte by byte where it matters."""

from __future__ import annotations

import asyncio
import gzip
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from tests.localcloud.support.gateway import Upstream, behind, connection, head_of, refusal_of, running, set_upstream
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.gateway import Workload
    from tests.localcloud.support.server import Organization, Server

MEBIBYTE = 2**20


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    """A server that a test puts behind an image."""
    async with Upstream() as listening:
        yield listening


def opening(workload: Workload, method: str = "GET", path: str = "/", *headers: str) -> bytes:
    """The head of a request to a public workload."""
    return "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {workload.host}", *headers, "", ""]).encode("latin-1")


def resident_bytes(server: Server) -> int:
    pages = Path(f"/proc/{server.child.pid}/statm").read_text().split()[1]
    return int(pages) * 4096


async def test_the_upstream_of_the_image_gets_the_request_and_its_answer_comes_back(
    organization: Organization, upstream: Upstream
) -> None:
    async def respond(request: web.Request) -> web.Response:
        assert await request.read() == b"the body"
        response = web.Response(status=418, reason="Teapot indeed", body=b"short")
        response.headers["X-Twice"] = "one"
        response.headers.add("X-Twice", "two")
        return response

    upstream.respond = respond
    workload = await behind(organization, upstream)
    async with connection(workload) as (reader, writer):
        writer.write(opening(workload, "PROPFIND", "/a%2Fb//c/../d?x=%20&y", "Content-Length: 8", "A: 1", "A: 2"))
        writer.write(b"the body")
        answer = await reader.readuntil(b"short")
    (seen,) = upstream.received
    assert (seen.method, seen.raw_path) == ("PROPFIND", "/a%2Fb//c/../d?x=%20&y")
    assert seen.headers.getall("A") == ["1", "2"]
    assert answer.startswith(b"HTTP/1.1 418 Teapot indeed\r\n")
    assert answer.count(b"X-Twice: one\r\n") == answer.count(b"X-Twice: two\r\n") == 1


async def test_a_path_of_the_upstream_goes_before_each_requests_own(
    organization: Organization, upstream: Upstream, server: Server
) -> None:
    workload = await behind(organization, upstream)
    await set_upstream(server, f"image-of-{organization.id}", f"{upstream.url}/base/")
    await workload.call("GET", "/more?q=1")
    assert upstream.received[-1].raw_path == "/base/more?q=1"


async def test_headers_between_neighbours_stay_there_and_the_others_say_where_it_came_from(
    organization: Organization, upstream: Upstream
) -> None:
    async def respond(_: web.Request) -> web.Response:
        own = {"Connection": "X-Mine", "X-Mine": "hop", "Keep-Alive": "timeout=5", "X-End": "to end"}
        return web.Response(text="hello", headers=own)

    upstream.respond = respond
    workload = await behind(organization, upstream)
    hops = ("Connection: keep-alive, X-Hop", "X-Hop: 1", "Keep-Alive: 5", "TE: trailers", "Proxy-Authorization: no")
    claimed = ("X-Forwarded-For: 203.0.113.9", "X-Forwarded-Host: evil", "X-Forwarded-Proto: gopher")
    async with connection(workload) as (reader, writer):
        writer.write(opening(workload, "GET", "/", *hops, *claimed, "X-End: to end"))
        _, answered = await head_of(reader)
    assert upstream.headers == {
        "host": workload.host,
        "x-end": "to end",
        "x-forwarded-for": "203.0.113.9, 127.0.0.1",
        "x-forwarded-host": workload.host,
        "x-forwarded-proto": "http",
    }
    assert answered["x-end"] == "to end"
    assert answered.keys().isdisjoint({"x-mine", "keep-alive"})


async def test_nothing_is_added_to_an_answer_and_nothing_is_unpacked(
    organization: Organization, upstream: Upstream
) -> None:
    packed = gzip.compress(b"a secret that nobody reads")
    sent = b"HTTP/1.0 200 OK\r\nContent-Encoding: gzip\r\nDate: today\r\nX-Name: caf\xe9\r\n\r\n" + packed

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(sent)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as bare:
        upstream.url = f"http://127.0.0.1:{bare.sockets[0].getsockname()[1]}"
        workload = await behind(organization, upstream)
        async with connection(workload) as (reader, writer):
            writer.write(opening(workload, "GET", "/", "X-Name: caf\xe9", "Connection: close"))
            status, headers = await head_of(reader)
            body = await reader.read()
    assert status == 200
    assert sorted(headers) == ["connection", "content-encoding", "date", "transfer-encoding", "x-name"]
    assert headers["x-name"].encode("latin-1").decode() == "caf\N{LATIN SMALL LETTER E WITH ACUTE}"
    assert packed in body


async def test_redirects_and_cookies_are_the_clients_affair(organization: Organization, upstream: Upstream) -> None:
    async def respond(_: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": "/elsewhere", "Set-Cookie": "a=b"})

    upstream.respond = respond
    workload = await behind(organization, upstream)
    for _ in range(2):
        answer = await workload.call("GET", "/", headers={})
        assert (answer.status, answer.headers["location"]) == (302, "/elsewhere")
        assert "cookie" not in upstream.headers
    assert [seen.path for seen in upstream.received] == ["/", "/"]


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 304), ("GET", 204)])
async def test_answers_without_a_body_end_with_their_head(
    organization: Organization, upstream: Upstream, method: str, status: int
) -> None:
    async def respond(_: web.Request) -> web.Response:
        length = {"Content-Length": "12345"} if status == 200 else {}
        return web.Response(status=status, headers={"ETag": '"x"', **length})

    upstream.respond = respond
    workload = await behind(organization, upstream)
    async with connection(workload) as (reader, writer):
        for _ in range(2):  # on one connection: whatever came after the head would be taken for the next answer
            writer.write(opening(workload, method))
            answered, headers = await head_of(reader)
            assert (answered, headers["etag"]) == (status, '"x"')
            assert headers.get("content-length") == ("12345" if status == 200 else None)
            assert "transfer-encoding" not in headers


async def test_head_is_answered_by_the_echo_too(organization: Organization) -> None:
    workload = await running(organization, public=True)
    async with connection(workload) as (reader, writer):
        writer.write(opening(workload, "HEAD") + opening(workload, "HEAD"))
        assert (await head_of(reader))[0] == (await head_of(reader))[0] == 200


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
    assert (await workload.call("HEAD", "/", headers={})).status == 200  # what serves is loaded
    before = resident_bytes(organization.server)
    sent = 0
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
            received += len(await reader.read(MEBIBYTE))
    assert resident_bytes(organization.server) - before < 32 * MEBIBYTE


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
    before = resident_bytes(organization.server)
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
    assert resident_bytes(organization.server) - before < 32 * MEBIBYTE


async def test_the_echo_answers_large_bodies_without_memory(organization: Organization) -> None:
    workload = await running(organization, public=True)
    before = resident_bytes(organization.server)
    answer = await workload.call("POST", "/", raw=b"ab\xc3\xa9\n" * (4 * MEBIBYTE), headers={})
    assert answer.body["body"] == "ab\N{LATIN SMALL LETTER E WITH ACUTE}\n" * (4 * MEBIBYTE)
    assert resident_bytes(organization.server) - before < 16 * MEBIBYTE


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
    async with asyncio.timeout(30):
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


async def test_an_upstream_that_is_not_there_is_502_and_the_echo_takes_over_once_it_is_removed(
    organization: Organization, upstream: Upstream, server: Server
) -> None:
    workload = await behind(organization, upstream)
    await upstream.close()
    answer = await workload.call("POST", "/", raw=b"body", headers={})
    assert answer.refusal == (502, "bad_upstream")
    assert upstream.url in answer.body["error"]
    image = f"image-of-{organization.id}"
    assert {"image": image, "url": upstream.url} in (await server.ok("GET", "/upstreams"))["items"]
    await server.ok("DELETE", f"/upstreams?image={image}")
    assert (await workload.call("GET", "/", headers={})).body["method"] == "GET"
    assert (await server.control("DELETE", f"/upstreams?image={image}")).refusal == (404, "not_found")


async def test_an_upstream_that_answers_no_http_is_502(organization: Organization, upstream: Upstream) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"220 smtp.example ready\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as mail:
        upstream.url = f"http://127.0.0.1:{mail.sockets[0].getsockname()[1]}"
        workload = await behind(organization, upstream)
        assert (await workload.call("GET", "/", headers={})).refusal == (502, "bad_upstream")


async def test_upstreams_are_kept_with_the_state(start_server: StartServer, tmp_path: Path) -> None:
    arguments = ("--state", str(tmp_path / "state"), "--clock", "frozen")
    first = start_server(*arguments)
    await set_upstream(first, "app:1", "http://127.0.0.1:9/base")
    first.kill()
    second = start_server(*arguments)
    kept = await second.ok("GET", "/upstreams")
    assert kept == {"items": [{"image": "app:1", "url": "http://127.0.0.1:9/base"}]}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"image": "app:1"},
        {"image": "", "url": "http://127.0.0.1:9"},
        {"image": 1, "url": "http://127.0.0.1:9"},
        {"image": "app:1", "url": None},
        {"image": "app:1", "url": "127.0.0.1:9"},
        {"image": "app:1", "url": "ftp://127.0.0.1"},
        {"image": "app:1", "url": "http://"},
        {"image": "app:1", "url": "http://127.0.0.1:99999"},
        {"image": "app:1", "url": "http://user:secret@127.0.0.1"},
        {"image": "app:1", "url": "http://127.0.0.1/?q=1"},
        {"image": "app:1", "url": "http://127.0.0.1/#f"},
        {"image": "app:1", "url": "http://127.0.0.1/\n"},
        {"image": "app:1", "url": "http://127.0.0.1", "more": 1},
    ],
)
async def test_an_upstream_that_makes_no_sense_is_400(server: Server, body: object) -> None:
    assert (await server.control("POST", "/upstreams", body)).refusal == (400, "invalid_request")
