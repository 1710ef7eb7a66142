"""An aiohttp app on an address, for as long as a block runs; strangers can use only a share of its connections."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast
from weakref import WeakSet

from aiohttp import web
from aiohttp.typedefs import Handler
from aiohttp.web_protocol import RequestHandler

from relay_operator.settings import ListenAddress

_SHUTDOWN_SECONDS = 2.0
_IDLE_SECONDS = 15.0
"""Seconds until the head of the first request, and between two requests."""
_MAX_CONNECTIONS = 256


class _Refusal(asyncio.Protocol):
    """Refuses a connection above the limit."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).abort()  # TCP is a stream; uvloop's transports are not of that class


@asynccontextmanager
async def http_server(
    app: web.Application,
    listen: ListenAddress,
    *,
    max_connections: int = _MAX_CONNECTIONS,
    idle_seconds: float = _IDLE_SECONDS,
) -> AsyncIterator[ListenAddress]:
    """Serve the app until the block ends; yields the address in use. Raises OSError if the address is taken."""
    loop, heard = asyncio.get_running_loop(), WeakSet[asyncio.BaseTransport]()

    @web.middleware
    async def hear(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.transport is not None:
            heard.add(request.transport)
        return await handler(request)

    app.middlewares.append(hear)
    # Single requests are not logged: outcomes are counted where they are known.
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS, keepalive_timeout=idle_seconds)
    await runner.setup()
    serving = runner.server
    assert serving is not None, "it is set up"

    def drop_if_silent(connection: RequestHandler) -> None:
        if connection.transport is not None and connection.transport not in heard:
            connection.transport.abort()

    def connected() -> asyncio.Protocol:
        if len(serving.connections) >= max_connections:
            return _Refusal()
        connection = serving()
        loop.call_later(idle_seconds, drop_if_silent, connection)
        return connection

    try:
        if listen.host == "::":
            server = await loop.create_server(connected, sock=_on_every_address(listen.port))
        else:
            server = await loop.create_server(connected, listen.host, listen.port)
        try:
            yield ListenAddress(listen.host, server.sockets[0].getsockname()[1])
        finally:
            server.close()
    finally:
        await runner.cleanup()


def _on_every_address(port: int) -> socket.socket:
    """A listener for IPv6 and IPv4, which event loops keep apart; for IPv4 alone on a system without IPv6."""
    if socket.has_dualstack_ipv6():
        return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))
