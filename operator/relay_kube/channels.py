"""A WebSocket of Kubernetes whose messages belong to channels: each begins with the number of its channel.

While aiohttp pauses a connection, what the server wrote before it closed the connection may be lost. So a task reads
ahead, at the server's pace.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import aiohttp

from relay_kube.kube import Kube, Unavailable

_OVER: Final = frozenset(
    {aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSING, aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR}
)
_AHEAD: Final = 128
"""Messages read before they are taken. The API server's have 32 KiB at most, so this is 4 MiB a connection."""


class Channels:
    """An open connection; iterating yields the channel and the data of each message, until the server closes it."""

    def __init__(self, connected: aiohttp.ClientWebSocketResponse, ahead: asyncio.Queue[aiohttp.WSMessage]) -> None:
        self._connected, self._ahead = connected, ahead

    async def send(self, channel: int, data: bytes) -> None:
        """Send data on a channel. Raises ConnectionError if the connection has ended."""
        await self._connected.send_bytes(bytes([channel]) + data)

    async def __aiter__(self) -> AsyncIterator[tuple[int, bytes]]:
        """Raises Unavailable if the connection breaks."""
        while (message := await self._ahead.get()).type not in _OVER:
            if message.type is aiohttp.WSMsgType.BINARY and message.data:
                yield message.data[0], bytes(message.data[1:])
        if message.type is aiohttp.WSMsgType.ERROR:
            raise Unavailable(0, "Unreachable", f"the connection broke: {message.data!r}")


@asynccontextmanager
async def opened(kube: Kube, path: str, protocol: str) -> AsyncIterator[Channels]:
    """Yield an open connection to a subresource, and close it at the end of the context. Raises KubeError."""
    async with kube.socket(path, protocol) as connected:
        ahead: asyncio.Queue[aiohttp.WSMessage] = asyncio.Queue(_AHEAD)
        reading = asyncio.create_task(_read(connected, ahead))
        try:
            yield Channels(connected, ahead)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


async def _read(connected: aiohttp.ClientWebSocketResponse, ahead: asyncio.Queue[aiohttp.WSMessage]) -> None:
    message = await connected.receive()
    while message.type not in _OVER:
        await ahead.put(message)
        message = await connected.receive()
    await ahead.put(message)
