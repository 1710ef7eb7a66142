"""Answers that are written faster than they are taken: what waits in memory for a client waits for a bounded time."""

import asyncio
from collections.abc import Callable
from typing import Final

LEAST: Final = 64 * 1024
"""Bytes that a client takes at least in that time, of those that wait for it."""


class Taking:
    """Ends a connection whose client does not take what is written to it; told when the transport is full and not."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._looking: asyncio.TimerHandle | None = None

    def begin(self, transport: asyncio.Transport) -> None:
        """More waits than the transport likes to hold."""
        self.end()
        waits = transport.get_write_buffer_size()
        loop = asyncio.get_running_loop()
        self._looking = loop.call_later(self._seconds(), self._look, transport, waits)

    def end(self) -> None:
        """Most of it was taken, or the connection is over."""
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    def _look(self, transport: asyncio.Transport, waited: int) -> None:
        if waited - transport.get_write_buffer_size() < LEAST:
            transport.abort()
        else:
            self.begin(transport)
