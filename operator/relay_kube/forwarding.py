"""A connection to a port of a Pod, over the WebSocket of the subresource `portforward` (`v4.channel.k8s.io`).

Each message begins with the number of its channel; the first one of each channel has the port after it.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import aiohttp

from relay_kube.kube import PODS, Kube, Unavailable

PROTOCOL: Final = "v4.channel.k8s.io"
_DATA, _ERROR = 0, 1
_PORT_BYTES: Final = 2


class Forwarded:
    """A connection; iterating yields the bytes from the Pod until that closes the connection."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket

    async def send(self, data: bytes) -> None:
        """Send to the Pod. Raises ConnectionError if the connection has ended."""
        await self._socket.send_bytes(bytes([_DATA]) + data)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Raises Unavailable, with the kubelet's message, if the port cannot be reached."""
        begun = set[int]()
        async for message in self._socket:
            if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                continue
            channel, data = message.data[0], bytes(message.data[1:])
            if channel not in begun:
                begun.add(channel)
                data = data[_PORT_BYTES:]
            if channel == _ERROR and data:
                raise Unavailable(0, "Unreachable", data.decode(errors="replace")[:500])
            if channel == _DATA and data:
                yield data


@asynccontextmanager
async def forwarded(kube: Kube, namespace: str, pod: str, port: int) -> AsyncIterator[Forwarded]:
    """Connect to a port of a Pod. Raises KubeError."""
    async with kube.socket(f"{PODS.path(namespace, pod, 'portforward')}?ports={port}", PROTOCOL) as socket:
        yield Forwarded(socket)
