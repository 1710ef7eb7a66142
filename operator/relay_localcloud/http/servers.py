"""HTTP servers: several ports in one process and one event loop, started and stopped together."""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp

from relay_localcloud.http.connections import Connection
from relay_localcloud.http.visitors import Visitors


class ListenError(Exception):
    """A port is not available; the message says which and why."""


class Server(uvicorn.Server):
    """One port. It leaves signals to the process, and `ready` waits until it answers."""

    def __init__(self, app: ASGIApp, visitors: Visitors, listener: socket.socket, tls: ssl.SSLContext | None) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=cast(Any, partial(Connection, visitors)),  # uvicorn only calls it
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=75,
                timeout_graceful_shutdown=1,
                ssl_context_factory=None if tls is None else lambda _config, _default: tls,
            )
        )
        self._listener = listener
        self._ready = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then signal readiness."""
        await super().startup(sockets)
        self._ready.set()

    def end(self) -> None:
        """Make `run_until_told` return."""
        self.should_exit = True

    async def run_until_told(self) -> None:
        """Serve until `end`."""
        await self.serve([self._listener])

    async def ready(self) -> None:
        """Return once the port answers."""
        await self._ready.wait()


def listen(host: str, port: int) -> socket.socket:
    """Bind a port (0: any free one); raises ListenError if it is not available."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise ListenError(f"Port {port} on {host} cannot be listened on: {error}. Choose another, or 0.") from error
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio does not set it on accepted connections
    listener.setblocking(False)
    return listener
