"""A connection to a port of a Pod, over the WebSocket of the subresource `portforward` (`v4.channel.k8s.io`).

The first message of each channel begins with the port.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from relay_kube.channels import Channels, opened
from relay_kube.errors import Unavailable
from relay_kube.kube import PODS, Kube

PROTOCOL: Final = "v4.channel.k8s.io"
_DATA, _ERROR = 0, 1
_PORT_BYTES: Final = 2


class Forwarded:
    """A connection; iterating yields the bytes from the Pod until that closes the connection."""

    def __init__(self, connection: Channels) -> None:
        self._connection = connection

    async def send(self, data: bytes) -> None:
        """Send to the Pod. Raises ConnectionError if the connection has ended."""
        await self._connection.send(_DATA, data)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Raises Unavailable, with the kubelet's message, if the port cannot be reached."""
        begun = set[int]()
        async for channel, message in self._connection:
            data = message if channel in begun else message[_PORT_BYTES:]
            begun.add(channel)
            if channel == _ERROR and data:
                raise Unavailable(0, "Unreachable", data.decode(errors="replace")[:500])
            if channel == _DATA and data:
                yield data


@asynccontextmanager
async def forwarded(kube: Kube, namespace: str, pod: str, port: int) -> AsyncIterator[Forwarded]:
    """Connect to a port of a Pod. Raises KubeError."""
    path = f"{PODS.path(namespace, pod, 'portforward')}?ports={port}"
    async with opened(kube, path, PROTOCOL) as connection:
        yield Forwarded(connection)
