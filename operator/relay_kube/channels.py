"""A WebSocket of Kubernetes whose messages belong to channels: each begins with the number of its channel.

While aiohttp pauses a connection, what the server wrote before it closed the connection may be lost. So a task reads
ahead, at the server's pace. API servers up to 1.36 close the connection as soon as a process has ended: input that
arrives after that makes their kernel drop the output that this side has not received yet.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import aiohttp

from relay_kube.errors import Unavailable
from relay_kube.kube import Kube

PING_SECONDS: Final = 30.0
_OVER: Final = frozenset(
    {aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSING, aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR}
)
_AHEAD_BYTES: Final = 4 * 1024 * 1024
"""What is read before it is taken, a connection."""
_MESSAGE_BYTES: Final = 512
"""What a message takes beside its data: a container may write a byte at a time."""


class Channels:
    """An open connection; iterating yields the channel and the data of each message, until the server closes it."""

    def __init__(self, connected: aiohttp.ClientWebSocketResponse) -> None:
        self._connected = connected
        self._ahead: asyncio.Queue[aiohttp.WSMessage] = asyncio.Queue()
        self._bytes = 0
        self._room = asyncio.Event()

    async def send(self, channel: int, data: bytes) -> None:
        """Send data on a channel. Raises ConnectionError if the connection has ended."""
        await self._connected.send_bytes(bytes([channel]) + data)

    async def read(self) -> None:
        """Read ahead until the server closes the connection."""
        while (message := await self._connected.receive()).type not in _OVER:
            self._ahead.put_nowait(message)
            self._bytes += _size(message)
            if self._bytes > _AHEAD_BYTES:
                self._room.clear()
                await self._room.wait()
        self._ahead.put_nowait(message)

    async def ping(self) -> None:
        """Ping until the connection has ended: proxies end idle ones, and TCP notices so that a peer is gone.

        A pong has no deadline: it comes after the output that is not read here yet, and the ping comes after the input
        that the process has not read yet.
        """
        with suppress(ConnectionError):
            while True:
                await asyncio.sleep(PING_SECONDS)
                await self._connected.ping()

    async def __aiter__(self) -> AsyncIterator[tuple[int, bytes]]:
        """Raises Unavailable if the connection breaks."""
        while (message := await self._ahead.get()).type not in _OVER:
            self._bytes -= _size(message)
            if self._bytes <= _AHEAD_BYTES:
                self._room.set()
            if message.type is aiohttp.WSMsgType.BINARY and message.data:
                yield message.data[0], bytes(message.data[1:])
        if message.type is aiohttp.WSMsgType.ERROR:
            raise Unavailable(0, "Unreachable", f"the connection broke: {message.data!r}")


def _size(message: aiohttp.WSMessage) -> int:
    return _MESSAGE_BYTES + len(message.data or b"")


@asynccontextmanager
async def opened(kube: Kube, path: str, protocol: str) -> AsyncIterator[Channels]:
    """Yield an open connection to a subresource, and close it at the end of the context. Raises KubeError."""
    async with kube.socket(path, protocol) as connected:
        channels = Channels(connected)
        beside = [asyncio.create_task(channels.read()), asyncio.create_task(channels.ping())]
        try:
            yield channels
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
