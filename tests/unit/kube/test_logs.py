"""A log is read as long as it goes on, at the pace of its reader."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import TYPE_CHECKING

import aiohttp
from aiohttp import web

from relay_kube import kube
from relay_kube.access import Login, opened
from relay_kube.kube import ApiAccess, Kube

if TYPE_CHECKING:
    import pytest

AS_LONG = 0.1
"""Seconds within which any other request must be answered as a whole."""


async def tell(request: web.BaseRequest) -> web.StreamResponse:
    """A log that goes on for longer than that."""
    loop, response = asyncio.get_running_loop(), web.StreamResponse()
    await response.prepare(request)
    ends_at = loop.time() + 3 * AS_LONG
    while loop.time() < ends_at:
        await response.write(b"a line\n" * 1000)
    await response.write(b"the last line\n")
    return response


async def test_a_long_log_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kube, "_TIMEOUT", aiohttp.ClientTimeout(total=AS_LONG))
    runner = web.ServerRunner(web.Server(tell))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    last = b""
    async with aiohttp.ClientSession() as session:
        access = ApiAccess(f"http://127.0.0.1:{runner.addresses[0][1]}", session)
        async for piece in Kube(access).log("team-a", "pod-1", "main"):
            last = (last + piece)[-20:]
    assert last.endswith(b"the last line\n")
    await runner.cleanup()


async def test_the_system_notices_that_a_followed_logs_server_is_gone() -> None:
    runner = web.ServerRunner(web.Server(tell))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        login = Login(f"http://127.0.0.1:{runner.addresses[0][1]}", ssl.create_default_context())
        async with opened(login, "test") as access, access.session.get(access.url) as answer:
            assert answer.connection is not None
            assert answer.connection.transport is not None
            connected = answer.connection.transport.get_extra_info("socket")
            assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    finally:
        await runner.cleanup()
