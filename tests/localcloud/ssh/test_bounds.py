"""What somebody may take of the gateway who is not logged in, or does nothing."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import asyncssh
import pytest

from relay_localcloud import app
from relay_localcloud.capacity.nodes import NewNode, add_node
from relay_localcloud.http.servers import listen
from relay_localcloud.http.visitors import Visitors
from relay_localcloud.identity import organizations
from relay_localcloud.kernel.store import Store
from relay_localcloud.ssh.bounds import Bounds
from relay_localcloud.ssh.server import SshServer
from relay_localcloud.workloads import admission, moves
from relay_localcloud.workloads.ssh_keys import KEYS
from relay_localcloud.workloads.transitions import Trigger
from relay_wire.vms import VmCreate
from tests.support.eventually import PATIENCE_SECONDS, eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.localcloud.conftest import StartServer

BRIEF = 0.2
NO_SSH = (
    *(b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 100_000),
    *(b"SSH-1.0-x\r\n", b"SSH-2.0-x\r\n" + b"\xff" * 100_000),
)


@dataclass(frozen=True)
class Gate:
    """A gateway in this process, with bounds of the test's own, and a VM that runs behind it."""

    port: int
    vm_id: str
    key: asyncssh.SSHKey

    async def connect(self) -> asyncssh.SSHClientConnection:
        options = {"known_hosts": None, "client_keys": [self.key], "config": None, "agent_path": None}
        return await asyncssh.connect("127.0.0.1", self.port, username=self.vm_id, **options)


@asynccontextmanager
async def serving(bounds: Bounds) -> AsyncIterator[Gate]:
    store, key = Store.ephemeral(), asyncssh.generate_private_key("ssh-ed25519")
    cloud = app.open_cloud(store, app.Options(first_mode="frozen"), "http://localhost", "http://localhost")
    with store.transaction() as tx:
        founded, _ = organizations.seed(tx)
        node = add_node(tx, NewNode("h100", 8, "ams1", "eu-west", 512))
        room = admission.visible_node(tx, node, founded.organization_id)
        words = dict.fromkeys(("tier", "capability_tier"), "standard")
        priced = {"gpu_model_id": room.gpu_model_id, "price_per_hour_cents": 1, "http_port": 80}
        vm = admission.create(tx, VmCreate(name="one"), founded.organization_id, room, 1, **words, **priced)
        moves.apply(tx, vm, Trigger.STARTED)
        public = key.export_public_key().decode()
        named = {"id": "ssh_1", "name": "ada", "created_at": tx.now}
        KEYS.insert(tx, organization_id=founded.organization_id, public_key=public, **named)
    with listen("127.0.0.1", 0) as listener:
        server = SshServer(cloud, Visitors(store), listener, bounds)
        running = asyncio.create_task(server.run_until_told())
        await server.ready()
        yield Gate(listener.getsockname()[1], vm.id, key)
        server.end()
        await running
    store.close()


async def test_who_does_not_log_in_is_out_after_a_while() -> None:
    async with serving(Bounds(login_seconds=BRIEF)) as gate, asyncio.timeout(PATIENCE_SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", gate.port)
        assert (await reader.readline()).startswith(b"SSH-2.0-")
        await reader.read()
        writer.close()


@pytest.mark.parametrize(
    ("bounds", "opens"), [(Bounds(unused_seconds=BRIEF), False), (Bounds(idle_seconds=BRIEF), True)]
)
async def test_who_does_nothing_is_out_after_a_while(bounds: Bounds, opens: bool) -> None:
    async with serving(bounds) as gate, asyncio.timeout(PATIENCE_SECONDS):
        connection = await gate.connect()
        if opens:
            await connection.create_process()
        await connection.wait_closed()


async def test_what_is_no_ssh_ends_a_connection_and_nothing_else() -> None:
    async with serving(Bounds()) as gate, asyncio.timeout(PATIENCE_SECONDS):
        for sent in (
            b"GET / HTTP/1.1\r\n\r\n",
            b"\x00" * 100_000,
            b"SSH-2.0-x\r\n" + b"\xff" * 100_000,
            b"SSH-1.0-x\r\n",
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", gate.port)
            writer.write(sent)
            await reader.read()
            writer.close()
        async with await gate.connect() as connection:
            assert (await connection.run("true")).exit_status == 0


async def test_an_address_has_so_many_connections_over_all_ports(start_server: StartServer) -> None:
    server = start_server("--ephemeral", "--clock", "frozen", "--host", "0.0.0.0")
    await server.ok("PATCH", "/settings", {"connectionsPerAddress": 3})
    port = urlsplit(server.ready["sshUrl"]).port

    async def greeted(address: str) -> tuple[bool, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
        async with asyncio.timeout(PATIENCE_SECONDS):
            try:
                return (await reader.readline()).startswith(b"SSH-2.0-"), writer
            except ConnectionError:
                return False, writer

    reader, web = await asyncio.open_connection("127.0.0.1", urlsplit(server.url).port, local_addr=("127.0.0.2", 0))
    web.write(b"GET /v1/nothing HTTP/1.1\r\nHost: a\r\n\r\n")  # who has asked nothing yet is out after ten seconds
    assert await reader.readline() == b"HTTP/1.1 404 Not Found\r\n"
    first = [await greeted("127.0.0.2") for _ in range(2)]
    assert [each for each, _ in first] == [True, True]
    assert not (await greeted("127.0.0.2"))[0]
    assert (await greeted("127.0.0.3"))[0]
    first[0][1].close()

    async def again() -> bool:
        answered, writer = await greeted("127.0.0.2")
        writer.close()
        return answered

    await eventually(again, bool, what="the place of the connection that was closed")
    web.close()
    first[1][1].close()
