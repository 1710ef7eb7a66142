"""Requests on their way to an upstream and its answers back, byte by byte where it matters."""

from __future__ import annotations

import asyncio
import gzip
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from tests.localcloud.support.gateway import (
    Upstream,
    behind,
    connection,
    head_of,
    opening,
    running,
    set_upstream,
)

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization, Server


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
