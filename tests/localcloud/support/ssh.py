"""Clients of the SSH gateway: asyncssh, which is always there, and OpenSSH where the machine has it."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import asyncssh

from tests.support.eventually import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.localcloud.support.server import Organization, Server

CLIENTS: Final = ("asyncssh", *(("openssh",) if shutil.which("ssh") else ()))
"""Whom a test that is about every client takes as its parameter."""
_NO_FILES: Final = ("-F", "none", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null")


@dataclass(frozen=True)
class Done:
    """What a command ended with."""

    status: int | None
    output: str
    errors: str


@dataclass(frozen=True)
class Person:
    """Somebody with an SSH key of their own."""

    key: asyncssh.SSHKey
    file: Path
    """Where the private key is."""

    @classmethod
    def made(cls, folder: Path, name: str = "ada", algorithm: str = "ssh-ed25519") -> Person:
        """With a fresh key."""
        key = asyncssh.generate_private_key(algorithm, comment=name)
        file = folder / name
        key.write_private_key(file)
        file.chmod(0o600)
        return cls(key, file)

    @property
    def public_key(self) -> str:
        """As people register it."""
        return self.key.export_public_key().decode()

    async def register(self, organization: Organization, name: str = "ada") -> str:
        """Register the key; its id."""
        made = await organization.ok(
            "POST", "/v1/orgs/{org}/ssh-keys/create", {"name": name, "publicKey": self.public_key}
        )
        return str(made["id"])

    async def connect(self, server: Server, user: str, **more: object) -> asyncssh.SSHClientConnection:
        """Log in; raises asyncssh.PermissionDenied."""
        host, port = address_of(server)
        options = {"known_hosts": None, "client_keys": [self.key], "config": None, "agent_path": None, **more}
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await asyncssh.connect(host, port, username=user, **options)

    async def run(self, client: str, server: Server, user: str, command: str) -> Done:
        """Run a command there with one of `CLIENTS`."""
        if client == "openssh":
            host, port = address_of(server)
            return await self.openssh("ssh", "-p", str(port), "-l", user, host, command)
        connection = await self.connect(server, user)
        try:
            done = await connection.run(command, timeout=PATIENCE_SECONDS)
        finally:
            connection.close()
        return Done(done.exit_status, str(done.stdout), str(done.stderr))

    async def openssh(self, program: str, *arguments: str, sends: bytes = b"") -> Done:
        """`ssh`, `scp` or `sftp` with this key and nothing of this machine's."""
        return await run(program, *_NO_FILES, "-o", "IdentitiesOnly=yes", "-i", str(self.file), *arguments, sends=sends)


async def run(*command: str, sends: bytes = b"") -> Done:
    """A program of this machine."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)
    async with asyncio.timeout(PATIENCE_SECONDS):
        output, errors = await process.communicate(sends)
    return Done(process.returncode, output.decode(), errors.decode())


def address_of(server: Server) -> tuple[str, int]:
    """Where the gateway is."""
    url = urlsplit(server.ready["sshUrl"])
    assert (url.scheme, url.hostname is None, url.port is None) == ("ssh", False, False)
    return str(url.hostname), int(url.port or 0)


async def key_of_host(server: Server) -> str:
    """The public key that the gateway shows to who connects."""
    host, port = address_of(server)
    shown = await asyncssh.get_server_host_key(host, port, config=None)
    assert shown is not None
    return " ".join(shown.export_public_key().decode().split()[:2])


async def ended(connection: asyncssh.SSHClientConnection) -> None:
    """Return once the other side has ended it."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        await connection.wait_closed()


async def tried(server: Server, user: str, keys: Sequence[asyncssh.SSHKey]) -> tuple[str, str]:
    """How a login with these keys fails: the kind of the refusal, and its words."""
    host, port = address_of(server)
    options = {"known_hosts": None, "client_keys": list(keys), "config": None, "agent_path": None}
    try:
        async with asyncssh.connect(host, port, username=user, **options):
            return "", "it was let in"
    except asyncssh.DisconnectError as error:
        return type(error).__name__, error.reason
