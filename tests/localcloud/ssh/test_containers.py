"""Where containers run, a shell, a command and copies are theirs: input, output, terminal, and how they end."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import asyncssh
import pytest
import pytest_asyncio

from relay_localcloud.runtimes.kubernetes.names import name_of, namespace_of
from relay_localcloud.ssh.bounds import Bounds
from relay_localcloud.ssh.commands import of_command, of_shell
from relay_localcloud.ssh.passing import Passing
from tests.localcloud.support.gate import Gate, serving
from tests.localcloud.support.kubelet import Kubelet, kubelet
from tests.support.eventually import PATIENCE_SECONDS, eventually
from tests.support.process import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


class Nobody:
    """A login that counts nothing."""

    def closed(self) -> None: ...
    def touch(self) -> None: ...


async def _at_once() -> None:
    """The turn of who is alone."""


@pytest_asyncio.fixture
async def containers() -> AsyncIterator[Kubelet]:
    async with kubelet() as own:
        yield own


@pytest_asyncio.fixture
async def gate(containers: Kubelet) -> AsyncIterator[Gate]:
    async with serving(Bounds(), containers) as own:
        yield own


@pytest_asyncio.fixture
async def connection(gate: Gate) -> AsyncIterator[asyncssh.SSHClientConnection]:
    async with asyncio.timeout(PATIENCE_SECONDS), await gate.connect() as own:
        yield own


async def test_a_command_runs_in_the_container_of_its_pod(
    gate: Gate, containers: Kubelet, connection: asyncssh.SSHClientConnection
) -> None:
    done = await connection.run("echo $((6 * 7)) 'a  b'; echo wrong >&2; exit 3")
    assert (done.stdout, done.stderr, done.exit_status) == ("42 a  b\n", "wrong\n", 3)
    assert (await connection.run("true")).exit_status == 0
    (path, query), *_ = containers.asked
    assert path == f"/api/v1/namespaces/{namespace_of(gate.organization_id)}/pods/{name_of(gate.vm_id)}/exec"
    said = dict(query)
    assert {name: said[name] for name in ("container", "stdin", "stdout", "stderr", "tty")} == {
        **dict.fromkeys(("stdin", "stdout", "stderr"), "true"),
        "container": "main",
        "tty": "false",
    }


async def test_input_and_output_are_bytes_of_any_length(connection: asyncssh.SSHClientConnection) -> None:
    sent = os.urandom(5_000_000)
    done = await connection.run("cat", input=sent, encoding=None)
    assert done.stdout == sent
    assert done.exit_status == 0


class Printing(Passing):
    """A container that prints once, as fast as its client takes it."""

    async def run(self) -> None:
        await self.paced()


async def test_a_container_waits_for_a_client_that_takes_nothing() -> None:
    passing = Printing(Nobody(), _at_once)
    passing.pause_writing()
    printing = asyncio.create_task(passing.run())
    for _ in range(10):
        await asyncio.sleep(0)
    assert not printing.done()
    passing.resume_writing()
    async with asyncio.timeout(PATIENCE_SECONDS):
        await printing


class Resizing(Passing):
    """A container that takes nothing yet; `sizes` are those that its terminal gets then."""

    def __init__(self) -> None:
        super().__init__(Nobody(), _at_once)
        self.sizes: list[tuple[int, int]] = []

    async def send(self, data: bytes) -> None: ...

    async def resize(self, columns: int, lines: int) -> None:
        self.sizes.append((columns, lines))

    async def run(self) -> None:
        await self.send_on(self, self.resize)


async def test_only_the_last_size_of_a_terminal_waits_for_a_container_that_takes_nothing() -> None:
    async def sizes() -> list[tuple[int, int]]:
        return passing.sizes

    passing = Resizing()
    for size in range(1000):
        passing.resized((size, size))
    running = asyncio.create_task(passing.run())
    await eventually(sizes, lambda seen: seen == [(999, 999)])
    passing.resized((80, 24))
    await eventually(sizes, lambda seen: seen == [(999, 999), (80, 24)])
    running.cancel()


async def test_whoever_reads_slowly_loses_nothing(
    connection: asyncssh.SSHClientConnection,
) -> None:
    process = await connection.create_process("head -c 20000000 /dev/zero", encoding=None)
    assert await process.stdout.readexactly(1) == b"\x00"
    rest = await process.stdout.read()
    assert len(rest) == 20_000_000 - 1
    assert (await process.wait()).exit_status == 0


async def test_the_output_of_who_has_no_more_input_goes_on(connection: asyncssh.SSHClientConnection) -> None:
    process = await connection.create_process("cat; echo after")
    process.stdin.write("before\n")
    process.stdin.write_eof()
    assert await process.stdout.read() == "before\nafter\n"


async def test_a_shell_has_a_terminal_of_the_clients_kind_and_size(connection: asyncssh.SSHClientConnection) -> None:
    shell = await connection.create_process(term_type="xterm-256color", term_size=(101, 37))
    shell.stdin.write("stty -echo; PS1=; stty size; echo $TERM; tty -s && echo terminal\n")
    shown = await shell.stdout.readuntil("\r\nterminal\r\n")
    assert "37 101\r\nxterm-256color" in shown
    shell.change_terminal_size(44, 22)

    async def size() -> str:
        shell.stdin.write("stty size; echo done\n")
        return str(await shell.stdout.readuntil("done\r\n"))

    await eventually(size, lambda said: "22 44" in said, what="the other size")
    shell.stdin.write("exit 9\n")
    assert (await shell.wait()).exit_status == 9


async def test_a_command_on_a_terminal_has_one(connection: asyncssh.SSHClientConnection) -> None:
    done = await connection.run('tty -s && echo "$TERM"', term_type="vt100")
    assert "vt100" in str(done.stdout)
    assert done.exit_status == 0


async def test_files_are_copied_by_the_containers_own_server(
    containers: Kubelet, connection: asyncssh.SSHClientConnection, tmp_path: Path
) -> None:
    server = tmp_path / "sftp-server"
    server.write_text("#!/bin/sh\nprintf 'a server: '\nexec cat\n")
    server.chmod(0o755)
    containers.files["/usr/lib/ssh/sftp-server"] = str(server)
    session = await connection.create_process(subsystem="sftp", encoding=None)
    session.stdin.write(b"\x00\xff what a client sends")
    session.stdin.write_eof()
    assert await session.stdout.read() == b"a server: \x00\xff what a client sends"
    assert (await session.wait()).exit_status == 0
    with pytest.raises(asyncssh.ChannelOpenError):
        await connection.create_process(subsystem="netconf")


async def test_a_container_without_a_server_of_files_says_what_to_do(
    containers: Kubelet, connection: asyncssh.SSHClientConnection
) -> None:
    for folder in ("/usr/lib", "/usr/libexec"):
        containers.files[folder] = "/nowhere"
    session = await connection.create_process(subsystem="sftp", encoding=None)
    told = (await session.stderr.read()).decode()
    assert (session.exit_status, "has no sftp-server" in told) == (127, True)


async def test_an_image_without_a_shell_says_so(
    containers: Kubelet, connection: asyncssh.SSHClientConnection, tmp_path: Path
) -> None:
    containers.path = str(tmp_path)
    done = await connection.run("ls")
    assert done.exit_status == 127
    assert "exec failed" in str(done.stderr)


@pytest.mark.parametrize("status", [403, 404, 500])
async def test_a_container_that_cannot_be_reached_is_told_with_its_reason(
    status: int, gate: Gate, containers: Kubelet, connection: asyncssh.SSHClientConnection
) -> None:
    containers.status = status
    done = await connection.run("ls")
    assert done.exit_status == 127
    assert f"The container of {gate.vm_id} cannot be reached" in str(done.stderr)
    assert f"answered {status}" in str(done.stderr)
    containers.status = 0
    assert (await connection.run("true")).exit_status == 0


async def test_what_runs_ends_with_its_session(containers: Kubelet, connection: asyncssh.SSHClientConnection) -> None:
    process = await connection.create_process("sleep 1000000")
    await eventually(lambda: _count(containers), lambda count: count == 1, what="it runs")
    process.close()
    await eventually(lambda: _count(containers), lambda count: count == 0, what="it ended")
    assert (await connection.run("true")).exit_status == 0


async def test_what_runs_ends_with_its_pod(gate: Gate, containers: Kubelet) -> None:
    connection = await gate.connect()
    process = await connection.create_process("sleep 1000000")
    await eventually(lambda: _count(containers), lambda count: count == 1, what="it runs")
    gate.stop()
    async with asyncio.timeout(PATIENCE_SECONDS):
        await connection.wait_closed()
    assert process.exit_status is None
    await eventually(lambda: _count(containers), lambda count: count == 0, what="it ended")


async def test_a_vm_has_a_server_of_its_own_to_which_this_gateway_only_leads(containers: Kubelet) -> None:
    async with serving(Bounds(), containers, of_vm=True) as gate, await gate.connect() as connection:
        with pytest.raises(asyncssh.ChannelOpenError, match=f"ssh -J {gate.vm_id}@GATEWAY USER@localhost"):
            await connection.run("true")
        await connection.open_connection("localhost", free_port())
    assert [query for _, query in containers.asked if "command" in query] == []


async def _count(containers: Kubelet) -> int:
    return len(containers.running)


async def test_a_forwarded_port_leads_to_the_container(connection: asyncssh.SSHClientConnection) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100_000):
            writer.write(data)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    sent = os.urandom(3_000_000)
    for host in ("localhost", "127.0.0.1"):
        reader, writer = await connection.open_connection(host, port)
        writer.write(sent)
        assert await reader.readexactly(len(sent)) == sent
        writer.close()
    server.close()


async def test_what_the_container_closes_is_closed(connection: asyncssh.SSHClientConnection) -> None:
    async def told(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"told")
        writer.close()

    server = await asyncio.start_server(told, "127.0.0.1", 0)
    reader, _ = await connection.open_connection("localhost", server.sockets[0].getsockname()[1])
    assert await reader.read() == b"told"
    server.close()


async def test_a_port_at_which_nobody_listens_closes_the_connection_and_nothing_else(
    connection: asyncssh.SSHClientConnection,
) -> None:
    reader, _ = await connection.open_connection("localhost", free_port())
    assert await reader.read() == b""
    assert (await connection.run("true")).exit_status == 0


@pytest.mark.parametrize(("host", "port"), [("169.254.169.254", 80), ("kubernetes.default.svc", 443), ("localhost", 0)])
async def test_only_the_container_itself_is_forwarded_to(
    host: str, port: int, containers: Kubelet, connection: asyncssh.SSHClientConnection
) -> None:
    with pytest.raises(asyncssh.ChannelOpenError, match="can be forwarded"):
        await connection.open_connection(host, port)
    with pytest.raises(asyncssh.ChannelListenError):
        await connection.start_server(lambda *_: None, "", 0)
    assert containers.asked == []


def test_nothing_of_what_a_client_sends_is_read_by_the_shell_that_begins() -> None:
    evil = "xterm'; rm -rf / #"
    assert evil not in of_shell(evil)[2]
    assert evil not in of_command(evil, evil)[2]
    assert of_shell("")[-1] == "dumb"
