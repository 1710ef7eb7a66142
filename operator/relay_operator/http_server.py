"""An aiohttp app on an address, for as long as a block runs; strangers can keep neither its connections nor its memory.

A new connection always gets in: beyond the limit, the one that has asked for nothing for the longest time has to go.
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from aiohttp.typedefs import Handler
from aiohttp.web_protocol import RequestHandler

from relay_operator.settings import ListenAddress

_SHUTDOWN_SECONDS = 2.0
_IDLE_SECONDS = 15.0
"""Seconds until the head of the first request, and between two requests."""
_ANSWER_SECONDS = 60.0
"""Seconds until a request is answered and its answer sent: a long scrape is, but not to a client that does not read."""
_MAX_CONNECTIONS = 256
_MAX_HEADERS = 48
"""A webhook that passes a CDN, a load balancer, an ingress and a mesh has about 40."""
_MAX_LINE_BYTES = 4096
"""Of the request line, and of a header: a proxy may put a whole certificate into one."""
_MAX_WAITING = 1
"""Requests of a connection that are read, and not begun: probes, scrapes and webhooks wait for each answer."""


@dataclass(slots=True)
class _Crowd:
    """The connections of a server, and their bounds."""

    limit: int
    idle_seconds: float
    answer_seconds: float
    present: dict["_Connection", None] = field(default_factory=dict)
    """The one that has asked for nothing for the longest time comes first."""


class _Connection(RequestHandler):
    """A connection that ends if it asks for nothing, takes no answer, asks ahead, or has to make room."""

    def __init__(self, server: web.Server, loop: asyncio.AbstractEventLoop, crowd: _Crowd) -> None:
        # Single requests are not logged: outcomes are counted where they are known.
        super().__init__(
            server,
            loop=loop,
            access_log=None,  # type: ignore[arg-type]  # as aiohttp's own servers pass it
            keepalive_timeout=crowd.idle_seconds,
            max_line_size=_MAX_LINE_BYTES,
            max_field_size=_MAX_LINE_BYTES,
            max_headers=_MAX_HEADERS,
        )
        self._crowd = crowd
        self._end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        while len(self._crowd.present) >= self._crowd.limit:
            next(iter(self._crowd.present)).abort()
        self._await_next(self._crowd.idle_seconds)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if len(self._messages) > _MAX_WAITING:
            self.abort()

    def begun(self) -> None:
        """Note that a request is being answered."""
        if self.transport is not None:
            self._await_next(self._crowd.answer_seconds)

    def abort(self) -> None:
        """End it at once, whatever it is about."""
        self._leave()
        if self.transport is not None:
            self.transport.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._leave()
        super().connection_lost(exc)

    def _await_next(self, seconds: float) -> None:
        self._leave()
        self._crowd.present[self] = None
        self._end = self._loop.call_later(seconds, self.abort)

    def _leave(self) -> None:
        self._crowd.present.pop(self, None)
        if self._end is not None:
            self._end.cancel()


@asynccontextmanager
async def http_server(
    app: web.Application,
    listen: ListenAddress,
    *,
    max_connections: int = _MAX_CONNECTIONS,
    idle_seconds: float = _IDLE_SECONDS,
    answer_seconds: float = _ANSWER_SECONDS,
) -> AsyncIterator[ListenAddress]:
    """Serve the app until the block ends; yields the address in use. Raises OSError if the address is taken."""
    loop, crowd = asyncio.get_running_loop(), _Crowd(max_connections, idle_seconds, answer_seconds)

    @web.middleware
    async def hear(request: web.Request, handler: Handler) -> web.StreamResponse:
        if isinstance(request.protocol, _Connection):
            request.protocol.begun()
        return await handler(request)

    app.middlewares.append(hear)
    runner = web.AppRunner(app, shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    serving = runner.server
    assert serving is not None, "it is set up"

    def connected() -> asyncio.Protocol:
        return _Connection(serving, loop, crowd)

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
