"""The gateway's port, beside the ports that uvicorn serves (`http/servers.py`)."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from relay_localcloud.gateway.directory import Directory
from relay_localcloud.gateway.endpoints import Names
from relay_localcloud.http.tls import accept
from relay_localcloud.http.turns import Turns
from relay_localcloud.http.under_way import UnderWay
from relay_localcloud.http.visitors import Visitors

if TYPE_CHECKING:
    from relay_localcloud.gateway.connections import Connections

_GRACE_SECONDS: Final = 1.0


class GatewayServer:
    """Listens from the start, and loads its modules when the first client connects."""

    def __init__(
        self,
        directory: Directory,
        names: Names,
        under_way: UnderWay,
        turns: Turns,
        visitors: Visitors,
        listener: socket.socket,
        tls: ssl.SSLContext | None,
    ) -> None:
        self._directory = directory
        self._names = names
        self._under_way = under_way
        self._turns = turns
        self._visitors = visitors
        self._listener = listener
        self._tls = tls
        self._connections: Connections | None = None
        self._ready = asyncio.Event()
        self._told = asyncio.Event()

    def end(self) -> None:
        """Make `run_until_told` return."""
        self._told.set()

    async def run_until_told(self) -> None:
        """Serve until `end`."""
        loop = asyncio.get_running_loop()
        end: Callable[[], object]
        if self._tls is None:
            opened = partial(self._opened, self._visitors)
            end = (await loop.create_server(opened, sock=self._listener, backlog=2048)).close
        else:
            accepting = loop.create_task(accept(self._listener, self._tls, self._visitors, self._opened))
            end = accepting.cancel
        self._ready.set()
        await self._told.wait()
        end()
        if self._connections is not None:
            await self._connections.close(_GRACE_SECONDS)

    async def ready(self) -> None:
        """Return once the port answers."""
        await self._ready.wait()

    def _opened(self, visitors: Visitors) -> asyncio.Protocol:
        if self._connections is None:
            # This import takes a fifth of the start, and there may never be a request to a workload.
            from relay_localcloud.gateway.connections import Connections  # noqa: PLC0415

            self._connections = Connections(self._directory, self._names, self._under_way, self._turns)
        return self._connections.open(visitors)
