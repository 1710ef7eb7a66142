"""Logins, which end once they would not be admitted any more. Only the SSH gateway imports this module."""

import asyncio
import socket
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

import asyncssh
from asyncssh import (
    ChannelOpenError,
    DisconnectError,
    SSHAcceptor,
    SSHServerConnection,
    SSHServerSession,
    SSHTCPSession,
)

from relay_localcloud.audit import entries
from relay_localcloud.cloud import Cloud
from relay_localcloud.clusters.clusters import replicas as cluster_replicas
from relay_localcloud.http.visitors import Visitors
from relay_localcloud.kernel.store import Tx
from relay_localcloud.serving.rows import replicas as serving_replicas
from relay_localcloud.ssh import admission, simulated
from relay_localcloud.ssh.admission import Admitted, Place
from relay_localcloud.ssh.bounds import Bounds
from relay_localcloud.ssh.containers import ContainerSession
from relay_localcloud.ssh.forwards import ITSELF, ForwardedConnection
from relay_localcloud.ssh.shells import SimulatedShell
from relay_localcloud.workloads.ssh_keys import KEYS
from relay_localcloud.workloads.workloads import workloads

_TEXT: Final[Mapping[str, object]] = {"errors": "replace", "line_editor": True}
_BYTES: Final[Mapping[str, object]] = {"encoding": None, "line_editor": False}
"""Options of channels: lines of text that are edited here, or raw bytes between the client and a container."""
HIGHEST_PORT: Final = 65_535
_RUNNING: Final = ("status", "terminated_at")
_OWN_SERVER: Final = (
    "a VM has an SSH server of its own: go through this gateway to it with ssh -J {}@GATEWAY USER@localhost"
)


class Logins:
    """All logins, by their pod, VM or replica. A login that would not be admitted any more ends at once."""

    def __init__(self, cloud: Cloud, visitors: Visitors, bounds: Bounds) -> None:
        self.cloud = cloud
        self.visitors = visitors
        self.bounds = bounds
        self._by_place: dict[str, set[Login]] = {}
        cloud.store.watch(workloads, "id", (*_RUNNING, "organization_id"), self._place_changed)
        for table in (cluster_replicas, serving_replicas):
            cloud.store.watch(table, "id", _RUNNING, self._place_changed)
        cloud.store.watch(KEYS.table, "id", ("public_key", "organization_id"), self._key_changed)

    def admitted(self, user: str, key: bytes) -> Admitted | None:
        """The login that this key opens for this user; None if there is none."""
        with self.cloud.store.transaction() as tx:
            return admission.admitted(tx, user, key)

    def come(self, login: "Login", there: Admitted, address: str) -> None:
        """Register a login, and record it in the organization's audit log."""
        with self.cloud.store.transaction() as tx:
            entry = (there.place.organization_id, there.key_id, address, there.place.id)
            tx.note(lambda noting: entries.record_login(noting, *entry))
        self._by_place.setdefault(there.place.id, set()).add(login)
        self._look_again([login])  # its key may have been removed during the authentication

    def go(self, login: "Login", there: Admitted) -> None:
        """Remove a login from the register."""
        beside = self._by_place.get(there.place.id, set())
        beside.discard(login)
        if not beside:
            self._by_place.pop(there.place.id, None)

    def open_at(self, there: Place) -> int:
        """The number of sessions and forwarded connections to one place."""
        return sum(login.channels for login in self._by_place.get(there.id, ()))

    def end(self, why: str) -> None:
        """End every login."""
        for login in self._everybody():
            login.end(why)

    def _everybody(self) -> list["Login"]:
        return [login for beside in self._by_place.values() for login in beside]

    def _place_changed(self, place_id: str) -> None:
        if place_id in self._by_place:
            # This runs inside a transaction, whose changes can be read, and are final, only after it.
            asyncio.get_running_loop().call_soon(self._look_at, place_id)

    def _key_changed(self, key_id: str) -> None:
        with_it = [login for login in self._everybody() if login.key_id == key_id]
        if with_it:
            asyncio.get_running_loop().call_soon(self._look_again, with_it)

    def _look_at(self, place_id: str) -> None:
        self._look_again(self._by_place.get(place_id, ()))

    def _look_again(self, logins: Iterable["Login"]) -> None:
        with self.cloud.store.transaction() as tx:
            out = [(login, why) for login in list(logins) if (why := login.why_out(tx)) is not None]
        for login, why in out:
            login.end(why)


class Login(asyncssh.SSHServer):
    """One connection, from its first byte; asyncssh calls its methods."""

    def __init__(self, logins: Logins) -> None:
        self._logins = logins
        self._key = b""
        self._failures = 0
        self._visitor: str | None = None
        self._admitted: Admitted | None = None
        self._in: Admitted | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._touched = 0.0
        self.channels = 0

    def connection_made(self, conn: SSHServerConnection) -> None:
        """Count the connection; abort it if its address has too many."""
        self._connection = conn
        self._visitor = self._logins.visitors.come(conn)
        if self._visitor is None:
            conn.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop counting the connection, and remove its login."""
        if self._visitor is not None:
            self._logins.visitors.go(self._visitor)
        if self._timer is not None:
            self._timer.cancel()
        if self._in is not None:
            self._logins.go(self, self._in)

    def begin_auth(self, username: str) -> bool:
        """True: every user must authenticate."""
        self._admitted = None
        return True

    def public_key_auth_supported(self) -> bool:
        """True: it is the only method."""
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        """Whether this user may log in with this key, which the client may not have signed with yet.

        Raises DisconnectError after too many rejected keys.
        """
        self._admitted, self._key = self._logins.admitted(username, key.public_data), key.public_data
        if self._admitted is not None:
            return True
        self._failures += 1
        if self._failures >= self._logins.bounds.failures:
            why = f"{self._failures} keys let nobody in: offer the right one first (ssh -i FILE -o IdentitiesOnly=yes)"
            raise DisconnectError(asyncssh.DISC_NO_MORE_AUTH_METHODS_AVAILABLE, why)
        return False

    def auth_completed(self) -> None:
        """Register the login: the client has signed with the key that was validated last."""
        assert self._admitted is not None
        self._in = self._admitted
        self.touch()
        self._look_whether_idle()
        self._logins.come(self, self._in, str(self._connection.get_extra_info("peername")[0]))

    def session_requested(self) -> SSHServerSession[bytes] | SSHServerSession[str]:
        """Open a session for a shell, a command or a subsystem. Raises ChannelOpenError."""
        there, cloud = self._room(), self._logins.cloud
        if cloud.containers is None:
            return SimulatedShell(there, self)
        if there.noun == "VM":
            raise ChannelOpenError(asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, _OWN_SERVER.format(there.id))
        return ContainerSession(there, self, cloud.containers, partial(cloud.turns.of, there.organization_id))

    def connection_requested(
        self, dest_host: str, dest_port: int, orig_host: str, orig_port: int
    ) -> SSHTCPSession[bytes]:
        """Open a connection to a port of the container. Raises ChannelOpenError."""
        assert self._in is not None
        there, cloud = self._in.place, self._logins.cloud
        if cloud.containers is None:
            raise ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, simulated.no_port(there, dest_port))
        if dest_host not in ITSELF or not 0 < dest_port <= HIGHEST_PORT:
            why = f"only ports of {there.id} itself can be forwarded: name it localhost"
            raise ChannelOpenError(asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, why)
        turn = partial(cloud.turns.of, there.organization_id)
        return ForwardedConnection(self._room(), dest_port, self, cloud.containers, turn)

    def closed(self) -> None:
        """Stop counting a session or forwarded connection."""
        self.channels -= 1
        self.touch()
        self._look_whether_idle()

    def touch(self) -> None:
        """Restart the idle time, since bytes were sent or received."""
        self._touched = asyncio.get_running_loop().time()

    @property
    def key_id(self) -> str | None:
        """The registered key that let it in; None before."""
        return None if self._in is None else self._in.key_id

    def why_out(self, tx: Tx) -> str | None:
        """Why the login would not be admitted any more; None if it would."""
        assert self._in is not None
        there = self._in.place
        if admission.place(tx, there.id) != there:
            return f"the {there.noun} {there.id} does not run any more, or is another organization's"
        if not admission.is_key_of(tx, there, self._in.key_id, self._key):
            return "this SSH key was removed"
        return None

    def end(self, why: str) -> None:
        """Tell the client why, and end its connection."""
        self._connection.disconnect(asyncssh.DISC_BY_APPLICATION, why)

    def _room(self) -> Place:
        """The place of one more session or connection, which is counted. Raises ChannelOpenError if there are too many.

        asyncssh calls `connection_made` later, when it has read everything that the client requested at once.
        """
        assert self._in is not None
        there, most = self._in.place, self._logins.bounds.channels
        if self._logins.open_at(there) >= most:
            why = f"The {there.noun} {there.id} has {most} sessions and forwarded connections: end some first"
            raise ChannelOpenError(asyncssh.OPEN_RESOURCE_SHORTAGE, why)
        self.channels += 1
        self.touch()
        self._look_whether_idle()
        return there

    def _look_whether_idle(self) -> None:
        """End the connection if it has been idle for too long; otherwise check again when it will have been."""
        loop, bounds = asyncio.get_running_loop(), self._logins.bounds
        if self._timer is not None:
            self._timer.cancel()
        most = bounds.idle_seconds if self.channels else bounds.unused_seconds
        left = self._touched + most - loop.time()
        if left <= 0:
            self.end(f"nothing was sent for {most:g} seconds")
        else:
            self._timer = loop.call_later(left, self._look_whether_idle)


async def listen(listener: socket.socket, logins: Logins, host_key: str) -> SSHAcceptor:
    """Serve SSH on the socket, with this private host key, until the acceptor is closed."""
    bounds = logins.bounds
    return await asyncssh.listen(
        sock=listener,
        server_factory=partial(Login, logins),
        server_host_keys=[asyncssh.import_private_key(host_key)],
        server_version="relay-localcloud",
        login_timeout=bounds.login_seconds,
        keepalive_interval=bounds.keepalive_seconds,
        compression_algs=["none"],  # decompressed data has no bound
        kex_algs="-diffie-hellman-*,gss-*,rsa*",  # these block the event loop for tens of ms before any authentication
        mac_algs="-hmac-sha1*",
        gss_host=None,
        password_auth=False,
        kbdint_auth=False,
        agent_forwarding=False,
        **(_TEXT if logins.cloud.containers is None else _BYTES),
    )
