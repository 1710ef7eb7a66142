"""The servers behind images: set, kept, removed, and not there."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.localcloud.support.gateway import (
    HANDSHAKE,
    Upstream,
    behind,
    connection,
    endless,
    head_of,
    opening,
    running,
    set_upstream,
)

if TYPE_CHECKING:
    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Organization, Server


async def test_an_upstream_that_leads_back_is_502_and_no_loop(organization: Organization, server: Server) -> None:
    workload = await running(organization, image=f"image-of-{organization.id}", public=True)
    await set_upstream(server, f"image-of-{organization.id}", workload.gateway)
    assert (await workload.call("GET", "/", headers={})).refusal == (502, "bad_upstream")


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


@pytest.mark.parametrize("headers", [(), HANDSHAKE], ids=["request", "WebSocket"])
async def test_an_upstream_that_announces_its_answer_without_end_is_502(
    organization: Organization, upstream: Upstream, headers: tuple[str, ...]
) -> None:
    async with endless() as upstream.url:
        workload = await behind(organization, upstream)
        async with connection(workload) as (reader, writer):
            writer.write(opening(workload, "GET", "/", *headers))
            status, _ = await head_of(reader)
            assert status == 502


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
