"""Bounds the time for which written data waits in memory for a client that reads slowly."""

import asyncio
from collections.abc import Callable
from typing import Final

LEAST: Final = 64 * 1024
"""The least number of waiting bytes that a client must read in that time."""


class Taking:
    """Ends a connection whose client does not read what is written; the transport says when its buffer is full."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._looking: asyncio.TimerHandle | None = None

    def begin(self, transport: asyncio.Transport) -> None:
        """The transport's buffer is over its high mark."""
        self.end()
        waits = transport.get_write_buffer_size()
        loop = asyncio.get_running_loop()
        self._looking = loop.call_later(self._seconds(), self._look, transport, waits)

    def end(self) -> None:
        """The client has read most of it, or the connection has ended."""
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    def _look(self, transport: asyncio.Transport, waited: int) -> None:
        if waited - transport.get_write_buffer_size() < LEAST:
            transport.abort()
        else:
            self.begin(transport)
