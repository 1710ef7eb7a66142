"""Bytes between an SSH client and a container, in each direction at the pace of the slower side."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, Literal, Protocol

_MOST_WAITING: Final = 1024 * 1024
"""Bytes that the client sent and the container has not accepted yet; beyond these, the client is not read from."""

WaitForTurn = Callable[[], Awaitable[None]]
"""Waits for the organization's turn on the event loop that all organizations share."""
Size = tuple[int, int]
"""The columns and lines of a terminal."""


class Counted(Protocol):
    """The login that a session or a forwarded connection belongs to."""

    def closed(self) -> None:
        """Stop counting the session or connection."""

    def touch(self) -> None:
        """Record that bytes were sent or received."""


class Destination(Protocol):
    """Where the client's bytes go."""

    async def send(self, data: bytes) -> None:
        """Send bytes. Raises ConnectionError once the destination has ended."""


class Channel(Protocol):
    """The channel to the client."""

    def pause_reading(self) -> None:
        """Stop reading from the client."""

    def resume_reading(self) -> None:
        """Read from the client again."""


class Passing(ABC):
    """One channel; a subclass connects its other end."""

    channel: Channel

    def __init__(self, whose: Counted, turn: WaitForTurn) -> None:
        self._whose = whose
        self._turn = turn
        self._sent: asyncio.Queue[bytes | Literal["size"] | None] = asyncio.Queue()
        """The client's bytes, and where its terminal's size changed, in order; None after the last."""
        self._size: Size | None = None
        """The terminal's size, until it is sent on."""
        self._waiting = 0
        self._takes_more = asyncio.Event()
        self._takes_more.set()
        self._running: asyncio.Task[None] | None = None

    @abstractmethod
    async def run(self) -> None:
        """Pass bytes on until one side has ended, and close the channel."""

    def connection_lost(self, exc: Exception | None) -> None:
        """End the other end."""
        self._whose.closed()
        if self._running is not None:
            self._running.cancel()

    def session_started(self) -> None:
        """Start `run`."""
        self._running = asyncio.create_task(self.run())

    def data_received(self, data: bytes, datatype: int | None) -> None:
        """Queue the client's bytes; stop reading from it if too many wait."""
        self._whose.touch()
        self._waiting += len(data)
        self._sent.put_nowait(data)
        if self._waiting > _MOST_WAITING:
            self.channel.pause_reading()

    def resized(self, size: Size) -> None:
        """Queue the size of the client's terminal, in place of one that still waits."""
        if self._size is None:
            self._sent.put_nowait("size")
        self._size = size

    def eof_received(self) -> bool:
        """Queue the end of the client's bytes; True, so that the other direction stays open."""
        self._sent.put_nowait(None)
        return True

    def pause_writing(self) -> None:
        """Hold `paced`: the client is slower than the container."""
        self._takes_more.clear()

    def resume_writing(self) -> None:
        """Release `paced`: the client has caught up."""
        self._takes_more.set()

    async def paced(self) -> None:
        """Wait for the organization's turn, and until the client takes more bytes."""
        await self._turn()
        await self._takes_more.wait()
        self._whose.touch()

    async def send_on(
        self,
        destination: Destination,
        resize: Callable[[int, int], Awaitable[None]] | None = None,
        end: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Send the client's bytes on until cancelled, or until the destination has ended.

        Without `resize`, terminal sizes are dropped; without `end`, so is the end of the client's bytes.
        """
        with suppress(ConnectionError):  # the other direction reports how it ended
            while True:
                match await self._sent.get():
                    case bytes() as data:
                        await self._turn()
                        await destination.send(data)
                        self._took(len(data))
                    case "size" if resize is not None:
                        (columns, lines), self._size = self._size or (0, 0), None
                        await resize(columns, lines)
                    case None if end is not None:
                        await end()

    def _took(self, count: int) -> None:
        self._waiting -= count
        if self._waiting <= _MOST_WAITING:
            self.channel.resume_reading()
