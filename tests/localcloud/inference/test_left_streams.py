"""Streams that their client leaves, or that we cut: what was sent is charged, and a cut of ours is free."""

from __future__ import annotations

import asyncio
import json
import socket
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from tests.localcloud.support.inference import CHAT, MESSAGES, chat, message
from tests.localcloud.support.modelserver import ModelServer
from tests.localcloud.support.server import connections
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Organization

NOTHING = {"requests": 0, "inputTokens": 0, "outputTokens": 0, "costNanoUsd": 0}
QUESTION = "three words long"


def begun(path: str, pieces: int) -> bytes:
    """What a model's server streams: its beginning and so many pieces."""
    chunks = _chat(pieces) if path == CHAT else _message(pieces)
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)


def _chat(pieces: int) -> Iterator[dict[str, Any]]:
    for delta in ({"role": "assistant"}, *({"content": f" {number}"} for number in range(pieces))):
        yield {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def _message(pieces: int) -> Iterator[dict[str, Any]]:
    yield {"type": "message_start", "message": {"id": "msg", "role": "assistant"}}
    for number in range(pieces):
        yield {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": f" {number}"}}


async def used(organization: Organization) -> Any:
    return (await organization.ok("GET", "/v1/orgs/{org}/ai/proxy-usage?days=1"))["totals"]


async def add(organization: Organization, behind: ModelServer) -> None:
    families = ["chat_completions", "messages"]
    body = {"provider": "openai_compatible", "ref": "far", "endpoint": behind.url, "nativeFamilies": families}
    await organization.ok("POST", "/v1/inference/models/mine/backends", body)


async def opened(organization: Organization, path: str, *, stream: bool = True) -> aiohttp.ClientResponse:
    url = organization.server.ready["inferenceUrl"] + path
    asked = (chat if path == CHAT else message)(QUESTION, "mine", stream=stream)
    async with connections() as session:
        return await session.post(url, json=asked, headers={"x-api-key": organization.api_key})


@pytest.mark.parametrize("pieces", [0, 1, 4])
@pytest.mark.parametrize("path", [CHAT, MESSAGES])
async def test_what_was_sent_is_charged_where_the_client_leaves(
    organization: Organization, path: str, pieces: int
) -> None:
    async with ModelServer(body=begun(path, pieces), hang=asyncio.Event()) as behind:
        await add(organization, behind)
        answer = await opened(organization, path)
        for _ in range(pieces + 1):
            await answer.content.readuntil(b"\n\n")
        assert await used(organization) == NOTHING
        answer.close()
        paid = await eventually(lambda: used(organization), lambda shown: shown != NOTHING, what="the charge")
    tokens = 3 + pieces
    assert paid == {"requests": 1, "inputTokens": 3, "outputTokens": pieces, "costNanoUsd": tokens * 100}


async def test_who_leaves_a_long_stream_pays_for_a_part_of_it(organization: Organization) -> None:
    url = organization.server.ready["inferenceUrl"] + CHAT
    async with aiohttp.ClientSession() as session:
        body, headers = chat("w " * 500_000, stream=True), {"x-api-key": organization.api_key}
        async with session.post(url, json=body, headers=headers) as answer:
            for _ in range(1000):
                await answer.content.readuntil(b"\n\n")
            answer.close()
    paid = await eventually(lambda: used(organization), lambda shown: shown != NOTHING, what="the charge")
    assert paid["inputTokens"] == 500_000
    assert 990 < paid["outputTokens"] < 500_000


async def test_who_leaves_before_anything_was_sent_pays_nothing(organization: Organization) -> None:
    async with ModelServer(hang=asyncio.Event()) as behind:
        await add(organization, behind)
        asking = asyncio.create_task(opened(organization, CHAT, stream=False))
        await behind.arrived.wait()
        asking.cancel()
        await asyncio.wait([asking])
        assert await used(organization) == NOTHING


async def test_a_server_that_breaks_off_costs_nothing(organization: Organization) -> None:
    async with ModelServer(body=begun(CHAT, 4)) as behind:
        await add(organization, behind)
        answer = await opened(organization, CHAT)
        assert b"upstream_error" in await answer.read()
        assert await used(organization) == NOTHING


class Talkative(ModelServer):
    """It streams without end."""

    async def take(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        path = MESSAGES if request.path.endswith("messages") else CHAT
        head = begun(path, 0)
        await answer.write(head)
        while True:
            await answer.write(begun(path, 1).removeprefix(head))
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(("path", "error"), [(CHAT, b"data: {"), (MESSAGES, b"event: error\ndata: {")])
async def test_a_stream_ends_once_its_key_is_revoked_and_what_was_sent_is_charged(
    organization: Organization, path: str, error: bytes
) -> None:
    made = await organization.ok("POST", "/v1/orgs/{org}/api-keys/create", {"name": "stolen"})
    async with Talkative() as behind:
        await add(organization, behind)
        answer = await opened(replace(organization, api_key=made["key"]), path)
        await answer.content.readuntil(b"\n\n")
        await organization.ok("DELETE", f"/v1/orgs/{{org}}/api-keys/{made['id']}")
        *_, last, done, nothing = (await answer.read()).split(b"\n\n")
    assert (last.startswith(error), b"revoked" in last, done, nothing) == (True, True, b"data: [DONE]", b"")
    paid = await used(organization)
    assert (paid["requests"], paid["outputTokens"] > 0) == (1, True)


async def test_a_stream_that_ends_with_its_state_costs_nothing_in_the_other(start_server: StartServer) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    organization = await server.organization()
    async with ModelServer(body=begun(CHAT, 4), hang=asyncio.Event()) as behind:
        await add(organization, behind)
        answer = await opened(organization, CHAT)
        await answer.content.readuntil(b"\n\n")
        await server.ok("POST", "/import", await server.ok("GET", "/export"))
        assert (await answer.read()).endswith(b"}\n\ndata: [DONE]\n\n")
        assert await used(organization) == NOTHING


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
async def test_a_stream_under_way_when_the_cloud_ends_is_said_to_be_cut(start_server: StartServer, path: str) -> None:
    server = start_server("--ephemeral")
    organization = await server.organization()
    async with Talkative() as behind:
        await add(organization, behind)
        answer = await opened(organization, path)
        await answer.content.readuntil(b"\n\n")
        reading = asyncio.create_task(answer.read())
        assert await asyncio.to_thread(server.stop) == 0
        *_, last, done, nothing = (await reading).split(b"\n\n")
    assert (b"The cloud ends" in last, done, nothing) == (True, b"data: [DONE]", b"")


def hardly_any_room(address: aiohttp.AddrInfoType) -> socket.socket:
    """A client's socket that is soon full if nobody reads, and so is the server's, however slow the machine is."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    return made


def unsent(url: str) -> int:
    """The bytes that the kernel keeps of what the server at this address has sent, since nobody takes them."""
    ending = f":{URL(url).port:04X}"
    rows = (row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:])
    return sum(int(row[4].partition(":")[0], 16) for row in rows if row[1].endswith(ending))


async def test_a_stream_that_nobody_reads_does_not_hold_up_the_end_of_the_cloud(start_server: StartServer) -> None:
    server = start_server("--ephemeral")
    organization = await server.organization()
    url = server.ready["inferenceUrl"] + CHAT
    connector = aiohttp.TCPConnector(socket_factory=hardly_any_room)
    async with aiohttp.ClientSession(connector=connector, read_bufsize=1024) as session:
        body, headers = chat("w " * 500_000, stream=True), {"x-api-key": organization.api_key}
        async with session.post(url, json=body, headers=headers) as answer:
            await answer.content.readuntil(b"\n\n")
            looks = [unsent(url)]

            async def looked() -> list[int]:
                looks.append(unsent(url))
                return looks[-6:]

            await eventually(looked, lambda last: last[0] > 0 and len(set(last)) == 1, what="the answer stands still")
            assert await asyncio.to_thread(server.stop) == 0
            with pytest.raises(aiohttp.ClientPayloadError):
                await answer.read()
