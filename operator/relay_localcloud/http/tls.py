"""TLS on connections that are counted when they are accepted: one that stays silent has its share and its deadline."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NoReturn, TypeAlias

from relay_localcloud.http.connections import HEAD_SECONDS
from relay_localcloud.http.visitors import Connected, Visitors

_AGAIN_SECONDS: Final = 0.1

Opened: TypeAlias = Callable[[Visitors], asyncio.Protocol]
"""Creates the protocol of a connection; it counts the connection among these visitors."""


class _Counted(Visitors):
    """The visitors of one connection, which is counted already."""

    def __init__(self, visitors: Visitors, visitor: str) -> None:
        self._visitors = visitors
        self._visitor = visitor
        self._is_open = False

    @property
    def stalled_seconds(self) -> float:
        return self._visitors.stalled_seconds

    def come(self, connection: Connected) -> str:
        del connection
        self._is_open = True
        return self._visitor

    def go(self, visitor: str) -> None:
        self._visitors.go(visitor)

    def close(self) -> None:
        """Stop counting the connection, unless its protocol does, for which TLS was agreed."""
        if not self._is_open:
            self.go(self._visitor)


async def accept(listener: socket.socket, tls: ssl.SSLContext, visitors: Visitors, opened: Opened) -> NoReturn:
    """Accept connections until cancelled; TLS must be agreed within HEAD_SECONDS."""
    loop = asyncio.get_running_loop()
    agreeing: set[asyncio.Task[None]] = set()
    try:
        while True:
            try:
                connection, address = await loop.sock_accept(listener)
            except OSError:  # the client is gone, or no descriptor is free
                await asyncio.sleep(_AGAIN_SECONDS)
                continue
            visitor = visitors.come_from(address[0])
            if visitor is None:
                connection.close()
                continue
            task = loop.create_task(_agree(connection, tls, _Counted(visitors, visitor), opened))
            agreeing.add(task)
            task.add_done_callback(agreeing.discard)
    finally:
        for task in agreeing:
            task.cancel()


async def _agree(connection: socket.socket, tls: ssl.SSLContext, counted: _Counted, opened: Opened) -> None:
    try:
        with suppress(OSError):  # also ssl.SSLError, and ConnectionAbortedError for a client that is late
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: opened(counted), connection, ssl=tls, ssl_handshake_timeout=HEAD_SECONDS
            )
    finally:
        counted.close()
