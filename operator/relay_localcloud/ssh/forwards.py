"""A forwarded connection: from an SSH client to a port of a container, over the Kubernetes API."""

import asyncio
import logging
from typing import Final

from asyncssh import SSHTCPChannel, SSHTCPSession

from relay_kube.errors import KubeError
from relay_localcloud.runtimes.runtime import Containers
from relay_localcloud.ssh.admission import Place
from relay_localcloud.ssh.passing import Counted, Passing, WaitForTurn

ITSELF: Final = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0", "::"})  # noqa: S104 - names of a destination
"""Names by which clients address the container that they are logged in to; other hosts are not reachable."""

_log = logging.getLogger(__name__)


class ForwardedConnection(Passing, SSHTCPSession[bytes]):
    """Ends when either side ends it; a client's end of data (EOF) is not passed on to the container."""

    channel: SSHTCPChannel[bytes]

    def __init__(self, there: Place, port: int, whose: Counted, containers: Containers, turn: WaitForTurn) -> None:
        super().__init__(whose, turn)
        self._there = there
        self._port = port
        self._containers = containers

    def connection_made(self, chan: SSHTCPChannel[bytes]) -> None:
        """Remember the channel."""
        self.channel = chan

    async def run(self) -> None:
        """Connect to the container, and pass bytes on in both directions."""
        place = (self._there.organization_id, self._there.id)
        try:
            async with self._containers.forward(*place, self._port) as forwarded:
                sending = asyncio.create_task(self.send_on(forwarded))
                try:
                    async for data in forwarded:
                        await self.paced()
                        self.channel.write(data)
                finally:
                    sending.cancel()
        except KubeError as error:
            _log.info("%s: port %d cannot be forwarded: %s", self._there.id, self._port, error)
        self.channel.close()
