"""The SSH gateway's port, beside the HTTP ports."""

import asyncio
import logging
import socket
from typing import TYPE_CHECKING

from relay_localcloud.cloud import Cloud
from relay_localcloud.http.visitors import Visitors
from relay_localcloud.ssh import host_keys
from relay_localcloud.ssh.bounds import Bounds

if TYPE_CHECKING:
    from asyncssh import SSHAcceptor


_log = logging.getLogger(__name__)


class SshServer:
    """Listens from the start, and imports the SSH implementation when the first client connects."""

    def __init__(self, cloud: Cloud, visitors: Visitors, listener: socket.socket, bounds: Bounds) -> None:
        self._cloud = cloud
        self._visitors = visitors
        self._listener = listener
        self._bounds = bounds
        self._ready = asyncio.Event()
        self._told = asyncio.Event()

    def end(self) -> None:
        """Make `run_until_told` return."""
        self._told.set()

    async def ready(self) -> None:
        """Return once the port answers."""
        await self._ready.wait()

    async def run_until_told(self) -> None:
        """Serve until `end`."""
        host_key = self._host_key()
        self._ready.set()
        if not await self._somebody_came():
            return
        # Not earlier, so that the ready line is the first line of a Pod's log.
        _log.info("The SSH gateway's host key is %s", host_keys.public_key(host_key))
        # This import takes half as long as the rest of the start, and there may never be a login.
        from relay_localcloud.ssh import logins  # noqa: PLC0415

        everybody = logins.Logins(self._cloud, self._visitors, self._bounds)
        acceptor = await logins.listen(self._listener, everybody, self._host_key())
        self._cloud.store.watch(host_keys.HOST_KEYS.table, "id", ("sealed",), lambda _: self._renew_soon(acceptor))
        await self._told.wait()
        acceptor.close()
        everybody.end("the cloud ends")

    async def _somebody_came(self) -> bool:
        """Wait for the first client; False if `end` was called."""
        loop, came = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._listener, came.set)
        waiting = [asyncio.ensure_future(each.wait()) for each in (came, self._told)]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            loop.remove_reader(self._listener)
            for each in waiting:
                each.cancel()
        return not self._told.is_set()

    def _renew_soon(self, acceptor: "SSHAcceptor") -> None:
        # This runs inside the transaction of an import, whose changes are final only after it.
        asyncio.get_running_loop().call_soon(self._renew, acceptor)

    def _renew(self, acceptor: "SSHAcceptor") -> None:
        import asyncssh  # noqa: PLC0415 - as above

        acceptor.update(server_host_keys=[asyncssh.import_private_key(self._host_key())])

    def _host_key(self) -> str:
        with self._cloud.store.transaction() as tx:
            return host_keys.private_key(tx, self._cloud.vault)
