"""Bytes between a client of SSH and a container, each way at the pace of the slower side."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, Protocol

_MOST_WAITING: Final = 1024 * 1024
"""Bytes that the client sent and the container has not taken; beyond that the client has to wait."""

Turn = Callable[[], Awaitable[None]]
"""Waits until it is the organization's turn among all that share the event loop."""
Resized = tuple[int, int]
"""Columns and lines of a terminal."""


class Counted(Protocol):
    """The login that a session or a forwarded connection belongs to."""

    def opened(self) -> None:
        """Count it."""

    def closed(self) -> None:
        """Count it no longer."""

    def touch(self) -> None:
        """Note that something was sent."""


class Destination(Protocol):
    """Where the client's bytes go; ConnectionError once that has ended."""

    async def send(self, data: bytes) -> None:
        """Send them."""


class Channel(Protocol):
    """The channel to the client."""

    def pause_reading(self) -> None:
        """Let the client wait."""

    def resume_reading(self) -> None:
        """Let it go on."""


class Passing:
    """One channel; a subclass says what is at its other end."""

    channel: Channel

    def __init__(self, whose: Counted, turn: Turn) -> None:
        self._whose = whose
        self._turn = turn
        self._sent: asyncio.Queue[bytes | Resized | None] = asyncio.Queue()
        """What the client sends, sizes of its terminal among it; None: it sends nothing more."""
        self._waiting = 0
        self._takes_more = asyncio.Event()
        self._takes_more.set()
        self._running: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Pass bytes on until one side has ended, and close the channel."""
        raise NotImplementedError

    def connection_lost(self, exc: Exception | None) -> None:
        """End what is at the other end."""
        self._whose.closed()
        if self._running is not None:
            self._running.cancel()

    def session_started(self) -> None:
        """Begin."""
        self._running = asyncio.create_task(self.run())

    def data_received(self, data: bytes, datatype: int | None) -> None:
        """Take what the client sends."""
        self._whose.touch()
        self._waiting += len(data)
        self._sent.put_nowait(data)
        if self._waiting > _MOST_WAITING:
            self.channel.pause_reading()

    def eof_received(self) -> bool:
        """Note that the client sends nothing more; the other way goes on."""
        self._sent.put_nowait(None)
        return True

    def pause_writing(self) -> None:
        """Wait: the client is slower than the container."""
        self._takes_more.clear()

    def resume_writing(self) -> None:
        """Go on: the client has caught up."""
        self._takes_more.set()

    async def paced(self) -> None:
        """Wait until the client takes more, and it is the organization's turn."""
        await self._turn()
        await self._takes_more.wait()
        self._whose.touch()

    async def send_on(
        self,
        destination: Destination,
        resize: Callable[[int, int], Awaitable[None]] | None = None,
        end: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Send what the client sends, until cancelled or the destination has ended."""
        with suppress(ConnectionError):  # the other way tells how it ended
            while True:
                match await self._sent.get():
                    case bytes() as data:
                        await self._turn()
                        await destination.send(data)
                        self._took(len(data))
                    case (columns, lines) if resize is not None:
                        await resize(columns, lines)
                    case None if end is not None:
                        await end()

    def _took(self, count: int) -> None:
        self._waiting -= count
        if self._waiting <= _MOST_WAITING:
            self.channel.resume_reading()
