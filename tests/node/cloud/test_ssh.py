"""SSH leads into the container of a pod: commands, input, a terminal, forwarded ports; and it ends with the pod."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import asyncssh
import pytest

from relay_localcloud.runtimes.kubernetes.names import name_of
from tests.support.eventually import PATIENCE_SECONDS, eventually

if TYPE_CHECKING:
    from tests.node.cloud.customer import Customer
    from tests.node.cloud.house import House

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif("RELAY_TEST_KUBECONFIG" in os.environ, reason="only the project's own node has pretended GPUs"),
]

IMAGE = "relay-localcloud:0.1.0"
"""It is on the node, has a shell and Python, and serves as any program does."""


async def logged_in(house: House, pod_id: str, key: asyncssh.SSHKey) -> asyncssh.SSHClientConnection:
    options: dict[str, Any] = {"known_hosts": None, "client_keys": [key], "config": None, "agent_path": None}
    return await asyncssh.connect("127.0.0.1", house.ports.ssh, username=pod_id, **options)


async def test_ssh_leads_into_the_container_and_ends_with_the_pod(house: House, customer: Customer) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    body = {"name": "ada", "publicKey": key.export_public_key().decode()}
    await customer.team.call("POST", f"/v1/orgs/{customer.team.id}/ssh-keys/create", body)
    pod_id = await customer.post(image=IMAGE, envVars={"GREETING": "from the container"})
    await customer.becomes(pod_id, "running")
    async with asyncio.timeout(PATIENCE_SECONDS):
        connection = await logged_in(house, pod_id, key)
        done = await connection.run('hostname; echo "$GREETING"; echo wrong >&2; exit 7')
        assert done.stdout == f"{name_of(pod_id)}\nfrom the container\n"
        assert (done.stderr, done.exit_status) == ("wrong\n", 7)
        sent = os.urandom(2_000_000)
        assert (await connection.run("cat", input=sent, encoding=None)).stdout == sent

        shell = await connection.create_process(term_type="xterm", term_size=(97, 31))
        shell.stdin.write("stty size; tty -s && echo a terminal\n")
        assert "31 97" in await shell.stdout.readuntil("\r\na terminal\r\n")
        shell.stdin.write("exit 3\n")
        assert (await shell.wait()).exit_status == 3

        listens = (
            "import http.server as h; h.HTTPServer(('127.0.0.1', 8888), h.SimpleHTTPRequestHandler).serve_forever()"
        )
        await connection.create_process(f'python3 -c "{listens}"')
        await eventually(lambda: served(connection, 8888), bool, what="the port that only the container reaches")

        await customer.team.call("POST", f"/v1/vms/{pod_id}/terminate")
        await connection.wait_closed()


async def served(connection: asyncssh.SSHClientConnection, port: int) -> bool:
    """Whether HTTP is answered there."""
    reader, writer = await connection.open_connection("localhost", port)
    writer.write(b"GET / HTTP/1.0\r\n\r\n")
    answer = bytes(await reader.read())
    writer.close()
    return answer.startswith(b"HTTP/1.0 200")
