"""The API server can send all output of a process, and close the connection, before anybody takes it."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest
from aiohttp import web

from relay_kube import channels, execution, forwarding
from relay_kube.errors import Unavailable
from relay_kube.execution import Exited, Printed, executed
from relay_kube.forwarding import forwarded
from relay_kube.kube import ApiAccess, Kube

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

MESSAGES: Final = 60
MESSAGE: Final = b"0123456789abcdef" * 2048
OUTPUT: Final = MESSAGE * MESSAGES


class ApiServer:
    """A server whose only route is a WebSocket, and which buffers little of what it sends."""

    def __init__(self, send: Callable[[web.WebSocketResponse], Awaitable[None]], protocol: str) -> None:
        self._send, self._protocol = send, protocol
        self.sent = asyncio.Event()

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Sends everything, and closes the connection."""
        answer = web.WebSocketResponse(protocols=(self._protocol,), autoping=False)
        await answer.prepare(request)
        assert request.transport is not None
        below = request.transport.get_extra_info("socket")
        below.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * len(MESSAGE))
        request.transport.set_write_buffer_limits(0)
        await self._send(answer)
        self.sent.set()
        return answer


@asynccontextmanager
async def serving(server: ApiServer) -> AsyncIterator[Kube]:
    runner = web.ServerRunner(web.Server(server.answer))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        async with aiohttp.ClientSession() as session:
            yield Kube(ApiAccess(f"http://127.0.0.1:{runner.addresses[0][1]}", session))
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("size", [len(MESSAGE), 2048], ids=["large messages", "small ones"])
async def test_output_that_is_taken_after_the_server_has_sent_it_is_whole(size: int) -> None:
    async def send(answer: web.WebSocketResponse) -> None:
        for begin in range(0, len(OUTPUT), size):
            await answer.send_bytes(b"\x01" + OUTPUT[begin : begin + size])
        await answer.send_bytes(b'\x03{"status": "Success"}')

    server = ApiServer(send, execution.PROTOCOL)
    printed, ended = b"", None
    async with (
        serving(server) as kube,
        executed(kube, "team-a", "pod-1", "main", ("head",), terminal=False) as running,
        asyncio.timeout(60),
    ):
        await server.sent.wait()
        async for each in running:
            match each:
                case Printed(data, False):
                    printed += data
                case _:
                    ended = each
    assert (len(printed), ended) == (len(OUTPUT), Exited(0))


async def test_output_that_the_end_has_overtaken_is_whole() -> None:
    async def send(answer: web.WebSocketResponse) -> None:
        await answer.send_bytes(b'\x03{"status": "Success"}')
        for _ in range(MESSAGES):
            await answer.send_bytes(b"\x01" + MESSAGE)

    async with (
        serving(ApiServer(send, execution.PROTOCOL)) as kube,
        executed(kube, "team-a", "pod-1", "main", ("head",), terminal=False) as running,
        asyncio.timeout(60),
    ):
        told = [each async for each in running]
    assert sum(len(each.data) for each in told if isinstance(each, Printed)) == len(OUTPUT)
    assert told[-1] == Exited(0)


async def test_what_a_port_sent_before_it_was_taken_is_whole() -> None:
    async def send(answer: web.WebSocketResponse) -> None:
        await answer.send_bytes(b"\x00\x90\x1f")
        for _ in range(MESSAGES):
            await answer.send_bytes(b"\x00" + MESSAGE)

    server = ApiServer(send, forwarding.PROTOCOL)
    async with serving(server) as kube, forwarded(kube, "team-a", "pod-1", 8080) as port, asyncio.timeout(60):
        await server.sent.wait()
        received = b"".join([data async for data in port])
    assert len(received) == len(OUTPUT)


async def test_a_connection_that_ends_before_the_process_did_is_an_error() -> None:
    async def send(answer: web.WebSocketResponse) -> None:
        await answer.send_bytes(b"\x01" + MESSAGE)

    server = ApiServer(send, execution.PROTOCOL)
    async with serving(server) as kube, executed(kube, "team-a", "pod-1", "main", ("head",), terminal=False) as running:
        with pytest.raises(Unavailable, match="ended before the process did"):
            _ = [each async for each in running]


async def test_a_process_that_is_silent_and_reads_nothing_keeps_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async def send(answer: web.WebSocketResponse) -> None:
        for _ in range(5):  # of pings, which it does not answer
            assert (await answer.receive()).type is web.WSMsgType.PING
        await answer.send_bytes(b"\x01late")
        await answer.send_bytes(b'\x03{"status": "Success"}')

    monkeypatch.setattr(channels, "PING_SECONDS", 0.01)
    async with (
        serving(ApiServer(send, execution.PROTOCOL)) as kube,
        executed(kube, "team-a", "pod-1", "main", ("sleep",), terminal=False) as running,
        asyncio.timeout(60),
    ):
        told = [each async for each in running]
    assert told == [Printed(b"late", is_error=False), Exited(0)]
