"""HTTP servers: several ports in one process and one event loop, started and stopped together."""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NoReturn, cast

import uvicorn
from starlette.types import ASGIApp

from relay_localcloud.http.connections import Connection
from relay_localcloud.http.errors import ErrorAnswer, management_error
from relay_localcloud.http.tls import accept
from relay_localcloud.http.visitors import Visitors


class ListenError(Exception):
    """A port is not available; the message says which and why."""


class Server(uvicorn.Server):
    """One port. It leaves signals to the process, and `ready` waits until it answers; `refused` formats errors."""

    def __init__(
        self,
        app: ASGIApp,
        visitors: Visitors,
        listener: socket.socket,
        tls: ssl.SSLContext | None,
        refused: ErrorAnswer = management_error,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=cast(Any, partial(Connection, visitors, refused=refused)),  # uvicorn only calls it
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=75,
                timeout_graceful_shutdown=1,
            )
        )
        self._listener = listener
        self._visitors = visitors
        self._tls = tls
        self._refused = refused
        self._accepting: asyncio.Task[NoReturn] | None = None
        self._ready = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then signal readiness."""
        await super().startup(sockets)
        if self._tls is not None:
            accepting = accept(self._listener, self._tls, self._visitors, self._opened)
            self._accepting = asyncio.create_task(accepting, name="accept connections for TLS")
        self._ready.set()

    def _opened(self, visitors: Visitors) -> Connection:
        of_uvicorn = (self.config, self.server_state, self.lifespan.state)
        return Connection(visitors, *of_uvicorn, refused=self._refused)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more connections, and end those that are open."""
        if self._accepting is not None:
            self._accepting.cancel()
        await super().shutdown(sockets)

    def end(self) -> None:
        """Make `run_until_told` return."""
        self.should_exit = True

    async def run_until_told(self) -> None:
        """Serve until `end`."""
        await self.serve([self._listener] if self._tls is None else [])

    async def ready(self) -> None:
        """Return once the port answers."""
        await self._ready.wait()


def listen(host: str, port: int) -> socket.socket:
    """Bind a port (0: any free one); raises ListenError if it is not available.

    `::` is every address, of IPv4 as well; on a system without IPv6, of IPv4 alone.
    """
    every = host == "::"
    both = every and socket.has_dualstack_ipv6()
    try:
        address = "0.0.0.0" if every and not both else host  # noqa: S104 - the caller asked for every address
        family = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((address, port), family=family, backlog=2048, dualstack_ipv6=both)
    except OSError as error:
        raise ListenError(f"Port {port} on {host} cannot be listened on: {error}. Choose another, or 0.") from error
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio does not set it on accepted connections
    listener.setblocking(False)
    return listener
