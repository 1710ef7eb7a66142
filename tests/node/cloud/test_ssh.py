"""The SSH gateway leads into containers of a real node: commands, their status, terminals, and ports."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import asyncssh
import pytest

from hack.node.image import TARGETS
from relay_localcloud.runtimes.kubernetes.names import name_of
from tests.node.gpus import NEEDS_GPUS

if TYPE_CHECKING:
    from tests.node.cloud.customer import Customer
    from tests.node.cloud.house import House

pytestmark = [pytest.mark.asyncio(loop_scope="session"), NEEDS_GPUS]
SHELL_AND_SERVER = TARGETS["localcloud"]
"""An image with a shell, whose program listens at port 8400; it happens to be the cloud's own."""


async def test_commands_and_forwarded_ports_reach_the_container_until_the_key_is_removed(
    house: House, customer: Customer
) -> None:
    key, keys = asyncssh.generate_private_key("ssh-ed25519"), f"/v1/orgs/{customer.team.id}/ssh-keys"
    public = key.export_public_key().decode()
    registered = await customer.team.call("POST", f"{keys}/create", {"name": "ada", "publicKey": public})
    pod_id = await customer.post(image=SHELL_AND_SERVER, httpPort=8400)
    record = await customer.becomes(pod_id, "running")
    await customer.answers(record, "/healthz")
    where = {"host": "127.0.0.1", "port": house.ports.ssh, "username": pod_id}
    options = {"known_hosts": None, "client_keys": [key], "config": None, "agent_path": None}
    async with asyncssh.connect(**where, **options) as connection:
        done = await connection.run("id -u; hostname; echo told >&2; exit 4", timeout=30)
        assert (done.exit_status, done.stderr) == (4, "told\n")
        assert str(done.stdout).split() == ["65532", name_of(pod_id)]
        sent = os.urandom(2_000_000)
        assert (await connection.run("cat", input=sent, encoding=None, timeout=60)).stdout == sent
        for _ in range(30):
            done = await connection.run("head -c 2000000 /dev/zero", encoding=None, timeout=60)
            assert (done.exit_status, len(done.stdout or b""), done.stderr) == (0, 2_000_000, b"")
        shell = await connection.create_process(term_type="xterm", term_size=(97, 31))
        shell.stdin.write("stty size; tty -s && echo a terminal\n")
        assert "31 97" in await shell.stdout.readuntil("\r\na terminal\r\n")
        shell.stdin.write("exit 3\n")
        assert (await shell.wait(timeout=30)).exit_status == 3
        files = await connection.create_process(subsystem="sftp", encoding=None)
        assert b"has no sftp-server" in await files.stderr.read()
        reader, writer = await connection.open_connection("127.0.0.1", 8400)
        writer.write(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert (await reader.readline()).split()[1] == b"200"
        await customer.team.call("DELETE", f"{keys}/{registered['id']}")
        await connection.wait_closed()
    await customer.team.call("POST", f"/v1/vms/{pod_id}/terminate")
    await customer.becomes(pod_id, "terminated")
