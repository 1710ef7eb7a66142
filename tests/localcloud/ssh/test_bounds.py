"""What somebody may take of the gateway who is not logged in, or does nothing."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import asyncssh
import pytest

from relay_localcloud.ssh.bounds import Bounds
from tests.localcloud.support.gate import serving
from tests.support.eventually import PATIENCE_SECONDS, eventually

if TYPE_CHECKING:
    from tests.localcloud.conftest import StartServer

BRIEF = 0.2
NO_SSH = (
    *(b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 100_000),
    *(b"SSH-1.0-x\r\n", b"SSH-2.0-x\r\n" + b"\xff" * 100_000),
)


async def test_who_does_not_log_in_is_out_after_a_while() -> None:
    async with serving(Bounds(login_seconds=BRIEF)) as gate, asyncio.timeout(PATIENCE_SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", gate.port)
        assert (await reader.readline()).startswith(b"SSH-2.0-")
        await reader.read()
        writer.close()


@pytest.mark.parametrize(
    ("bounds", "opens"),
    [(Bounds(unused_seconds=BRIEF), False), (Bounds(idle_seconds=BRIEF, unused_seconds=2 * PATIENCE_SECONDS), True)],
)
async def test_who_does_nothing_is_out_after_a_while(bounds: Bounds, opens: bool) -> None:
    async with serving(bounds) as gate, asyncio.timeout(PATIENCE_SECONDS):
        connection = await gate.connect()
        if opens:
            # On a slow machine it is out before it hears that its session is open.
            with suppress(asyncssh.ChannelOpenError, asyncssh.DisconnectError):
                await connection.create_process()
        await connection.wait_closed()


async def test_a_vm_has_so_many_sessions_and_no_more_even_if_all_are_requested_at_once() -> None:
    async with serving(Bounds(channels=3)) as gate, asyncio.timeout(PATIENCE_SECONDS):
        connection = await gate.connect()
        opened = await asyncio.gather(*(connection.create_process() for _ in range(20)), return_exceptions=True)
        assert sum(isinstance(each, asyncssh.SSHClientProcess) for each in opened) == 3
        assert sum(isinstance(each, asyncssh.ChannelOpenError) for each in opened) == 17
        connection.close()


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
            with suppress(ConnectionError):  # what it has not read resets the connection
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
