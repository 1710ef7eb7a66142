"""WebSockets through the gateway, to an upstream and to the echo."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from aiohttp import WSMsgType, web

from tests.localcloud.support.gateway import (
    HANDSHAKE,
    Upstream,
    behind,
    connection,
    head_of,
    opening,
    refusal_of,
    running,
    set_upstream,
)
from tests.support.eventually import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.localcloud.support.gateway import Workload
    from tests.localcloud.support.server import Organization

MEBIBYTE = 2**20


@asynccontextmanager
async def socket_to(
    workload: Workload, path: str = "/", headers: dict[str, str] | None = None, **more: Any
) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """A WebSocket to a workload's endpoint."""
    async with asyncio.timeout(PATIENCE_SECONDS), aiohttp.ClientSession() as session:
        sent = {"Host": workload.host, **(headers or {})}
        async with session.ws_connect(workload.gateway + path, headers=sent, max_msg_size=0, **more) as connected:
            yield connected


async def handshake_refused(workload: Workload) -> int:
    """The status with which a handshake is refused, as it has to be."""
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        async with socket_to(workload):
            pass
    return refused.value.status


class Talker:
    """Takes WebSockets: repeats in capitals, and remembers how each ended."""

    def __init__(self) -> None:
        self.ended: asyncio.Queue[tuple[int | None, str]] = asyncio.Queue()
        self.requests: list[web.Request] = []
        self.sockets: list[web.WebSocketResponse] = []

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        socket = web.WebSocketResponse(protocols=("chat.v2",), max_msg_size=0)
        await socket.prepare(request)
        self.sockets.append(socket)
        try:
            while (message := await socket.receive()).type in {WSMsgType.TEXT, WSMsgType.BINARY}:
                if message.type is WSMsgType.TEXT:
                    await socket.send_str(message.data.upper())
                else:
                    await socket.send_bytes(message.data.upper())
            self.ended.put_nowait((socket.close_code, message.extra or ""))
        except asyncio.CancelledError:
            self.ended.put_nowait((None, ""))
            raise
        return socket


@pytest.fixture
def talker() -> Talker:
    return Talker()


@pytest.fixture
async def upstream(talker: Talker) -> AsyncIterator[Upstream]:
    async with Upstream(talker) as listening:
        yield listening


async def test_messages_go_both_ways_as_they_are(
    organization: Organization, upstream: Upstream, talker: Talker
) -> None:
    workload = await behind(organization, upstream)
    async with socket_to(workload, "/chat?room=1", {"X-Mine": "1"}, protocols=("chat.v9", "chat.v2")) as socket:
        assert socket.protocol == "chat.v2"
        await socket.send_str("text")
        assert await socket.receive_str() == "TEXT"
        await socket.send_bytes(b"\xffbytes")
        assert await socket.receive_bytes() == b"\xffBYTES"
        await socket.send_bytes(b"x" * (4 * MEBIBYTE))
        assert await socket.receive_bytes() == b"X" * (4 * MEBIBYTE)
    (request,) = talker.requests
    assert request.raw_path == "/chat?room=1"
    assert (request.headers["X-Mine"], request.headers["X-Forwarded-Host"]) == ("1", workload.host)


async def test_a_close_carries_its_code_and_reason_both_ways(
    organization: Organization, upstream: Upstream, talker: Talker
) -> None:
    workload = await behind(organization, upstream)
    async with socket_to(workload) as socket:
        await socket.close(code=4001, message=b"enough")
        assert await talker.ended.get() == (4001, "enough")
    async with socket_to(workload) as socket:
        await socket.send_str("there?")
        await socket.receive_str()
        closing = asyncio.create_task(talker.sockets[-1].close(code=4002, message=b"bye"))
        message = await socket.receive()
        assert (message.type, message.data, message.extra) == (WSMsgType.CLOSE, 4002, "bye")
        await closing


async def test_pings_are_answered_by_the_other_end(organization: Organization, upstream: Upstream) -> None:
    workload = await behind(organization, upstream)
    async with socket_to(workload, autoping=False) as socket:
        await socket.ping(b"are you there")
        message = await socket.receive()
        assert (message.type, bytes(message.data)) == (WSMsgType.PONG, b"are you there")


async def test_whoever_is_gone_is_gone_for_the_other(
    organization: Organization, upstream: Upstream, talker: Talker
) -> None:
    workload = await behind(organization, upstream)
    async with socket_to(workload) as socket:
        response = socket._response  # the connection itself, to break it
        assert response.connection is not None
        assert response.connection.transport is not None
        response.connection.transport.abort()
        assert await talker.ended.get() == (1001, "")
    async with socket_to(workload) as socket:
        await socket.send_str("there?")
        await socket.receive_str()
        transport = talker.requests[-1].transport
        assert transport is not None
        transport.abort()
        assert (await socket.receive()).data == 1014


async def test_a_message_over_16_mebibytes_ends_the_conversation(
    organization: Organization, upstream: Upstream, talker: Talker
) -> None:
    workload = await behind(organization, upstream)
    async with socket_to(workload) as socket:
        with suppress(ConnectionError):  # it may be told before it has sent everything
            await socket.send_bytes(bytes(17 * MEBIBYTE))
        assert (await talker.ended.get())[0] in {1001, 1009}


async def test_what_the_upstream_refuses_is_refused(organization: Organization, upstream: Upstream) -> None:
    async def respond(_: web.Request) -> web.StreamResponse:
        return web.Response(status=403)

    upstream.respond = respond
    workload = await behind(organization, upstream)
    assert await handshake_refused(workload) == 403
    await upstream.close()
    assert await handshake_refused(workload) == 502


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_handshake_follows_no_redirect(organization: Organization, upstream: Upstream, status: int) -> None:
    async with Upstream(Talker()) as elsewhere:

        async def respond(_: web.Request) -> web.StreamResponse:
            return web.Response(status=status, headers={"Location": f"{elsewhere.url}/latest/meta-data"})

        upstream.respond = respond
        workload = await behind(organization, upstream)
        assert await handshake_refused(workload) == 502
        assert (len(upstream.received), elsewhere.received) == (1, [])


@pytest.mark.parametrize("headers", [(), ("Sec-WebSocket-Key: short",), ("Sec-WebSocket-Version: 12",)])
async def test_a_handshake_that_is_none_is_400(
    organization: Organization, upstream: Upstream, talker: Talker, headers: tuple[str, ...]
) -> None:
    workload = await behind(organization, upstream)
    async with connection(workload) as (reader, writer):
        writer.write(opening(workload, "GET", "/", "Connection: upgrade", "Upgrade: websocket", *headers))
        assert await refusal_of(reader) == (400, "invalid_request")
    assert talker.requests == []


async def test_a_private_workload_takes_sockets_with_the_key_and_the_echo_repeats(organization: Organization) -> None:
    workload = await running(organization)
    assert await handshake_refused(workload) == 401
    async with socket_to(workload, headers={"x-api-key": organization.api_key}) as socket:
        await socket.send_str("one")
        await socket.send_bytes(b"two")
        assert (await socket.receive_str(), await socket.receive_bytes()) == ("one", b"two")


async def test_a_private_workload_takes_sockets_with_the_key_beside_the_applications_own_token(
    organization: Organization, upstream: Upstream, talker: Talker
) -> None:
    await set_upstream(organization.server, "talks:1", upstream.url)
    workload = await running(organization, image="talks:1")
    made = await organization.ok("POST", "/v1/orgs/{org}/api-keys/create", {"name": "short"})
    own = {"Authorization": "Bearer of-the-application", "x-api-key": made["key"]}
    async with socket_to(workload, headers=own) as socket:
        await socket.send_str("one")
        assert await socket.receive_str() == "ONE"
        (seen,) = talker.requests
        assert seen.headers["Authorization"] == "Bearer of-the-application"
        assert "x-api-key" not in seen.headers
        await organization.call("DELETE", f"/v1/orgs/{{org}}/api-keys/{made['id']}")
        assert (await socket.receive()).type is WSMsgType.CLOSE


@pytest.mark.parametrize(
    ("head", "payload", "code"),
    [(b"\x81\x82", b"\xc3\x28", 1007), (b"\x82\xff" + (17 * MEBIBYTE).to_bytes(8), b"", 1009)],
    ids=["text that is not UTF-8", "a message over 16 MiB"],
)
async def test_the_echo_says_what_the_client_did_wrong_and_logs_nothing(
    organization: Organization, head: bytes, payload: bytes, code: int
) -> None:
    workload = await running(organization, public=True)
    async with connection(workload) as (reader, writer):
        writer.write(opening(workload, "GET", "/", *HANDSHAKE))
        assert (await head_of(reader))[0] == 101
        writer.write(head + bytes(4) + payload)
        assert await reader.read() == b"\x88\x02" + code.to_bytes(2)
    assert "Traceback" not in organization.server.log
