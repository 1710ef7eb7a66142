"""Where no container runs, a shell, a command and a copy say so, with a status that nobody takes for success."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

import asyncssh
import pytest

from relay_localcloud.ssh import logins
from relay_localcloud.ssh.admission import Place
from relay_localcloud.ssh.shells import SimulatedShell
from relay_localcloud.ssh.simulated import answer
from tests.localcloud.support.gate import serving
from tests.localcloud.support.ssh import CLIENTS, Person, address_of
from tests.support.eventually import PATIENCE_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.localcloud.support.server import Server

NOT_RUN = 126
LINES = 4000
"""Their answers together are several times what may wait for a client."""
HERE = Place("pod_1", "pod", "org_1")


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_command_says_that_it_was_not_run(client: str, server: Server, person: Person, pod: str) -> None:
    done = await person.run(client, server, pod, "nvidia-smi --token=secret")
    assert (done.status, done.output) == (NOT_RUN, "")
    assert f"{pod} is simulated" in done.errors
    assert "secret" not in done.errors + server.log


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_command_can_have_the_status_that_a_test_wants(
    client: str, server: Server, person: Person, pod: str
) -> None:
    assert (await person.run(client, server, pod, "exit 3")).status == 3
    assert (await person.run(client, server, pod, "true")).status == 0


@pytest.mark.parametrize(
    ("line", "status", "ends"),
    [
        ("", 0, False),
        ("  ", 0, False),
        ("true", 0, False),
        ("ls -l", NOT_RUN, False),
        ("exit", 0, True),
        ("exit 0", 0, True),
        ("exit 255", 255, True),
        ("exit 256", 0, True),
        ("logout", 0, True),
        ("exit -1", 2, False),
        ("exit ²", 2, False),
        ("exit 1 2", 2, False),
        ("exit3", NOT_RUN, False),
        ("\x00", NOT_RUN, False),
    ],
)
def test_each_line_has_its_status(line: str, status: int, ends: bool) -> None:
    said = answer(HERE, line)
    assert (said.status, said.ends) == (status, ends)


async def test_a_shell_on_a_terminal_says_what_it_is_and_asks_for_lines(
    server: Server, person: Person, pod: str
) -> None:
    async with await person.connect(server, pod) as connection:
        shell = await connection.create_process(term_type="xterm", term_size=(80, 24))
        shell.stdin.write("ls\n")
        shown = await shell.stdout.readuntil("so this was not run.")
        assert f"The pod {pod} is simulated" in shown
        assert f"{pod} (simulated)$ " in shown
        shell.stdin.write("\x03exit 7\n")
        await shell.wait()
        assert shell.exit_status == 7


async def test_the_status_of_a_shell_without_a_terminal_is_that_of_its_last_line(
    server: Server, person: Person, pod: str
) -> None:
    async with await person.connect(server, pod) as connection:
        done = await connection.run(input="true\nls")
        assert done.exit_status == 0, "a line that does not end is not run"
        assert f"The pod {pod} is simulated" in str(done.stderr)
        assert (await connection.run(input="true\nls\n")).exit_status == NOT_RUN
        assert (await connection.run(input="ls\nexit 4\ntrue\n")).exit_status == 4
        assert (await connection.run(input="x" * 100_000 + "\n")).exit_status == NOT_RUN
        assert (await connection.run(input="ls\n\x00\n", encoding="latin-1")).exit_status == NOT_RUN


async def test_who_reads_no_answers_is_not_read_from(monkeypatch: pytest.MonkeyPatch) -> None:
    full, waiting = asyncio.Event(), [0]

    class Watched(SimulatedShell):
        def pause_writing(self) -> None:
            full.set()
            super().pause_writing()

        def data_received(self, data: str, datatype: int | None) -> None:
            super().data_received(data, datatype)
            waiting.append(self._channel.get_write_buffer_size())

    monkeypatch.setattr(logins, "SimulatedShell", Watched)
    async with serving() as gate, asyncio.timeout(PATIENCE_SECONDS), await gate.connect() as connection:
        process = await connection.create_process(window=2048)
        for _ in range(LINES // 100):
            process.stdin.write("x\n" * 100)
        await full.wait()
        process.stdin.write_eof()
        answers = await process.stderr.read()
        assert answers.count("so this was not run.") == LINES
        assert max(waiting) < len(answers) / 2


async def test_what_is_no_text_ends_no_connection(server: Server, person: Person, pod: str) -> None:
    async with await person.connect(server, pod) as connection:
        assert (await connection.run(input=b"\xff\xfe\n", encoding=None)).exit_status == NOT_RUN
        assert (await connection.run("true")).exit_status == 0


async def test_sftp_says_that_there_are_no_files(server: Server, person: Person, pod: str) -> None:
    async with await person.connect(server, pod) as connection:
        session = await connection.create_process(subsystem="sftp", encoding=None)
        assert "it has no files" in (await session.stderr.read()).decode()
        assert session.exit_status == NOT_RUN
        with pytest.raises(asyncssh.ChannelOpenError):
            await connection.create_process(subsystem="netconf")


@pytest.mark.parametrize("program", [name for name in ("scp", "sftp") if shutil.which(name)])
async def test_who_copies_with_openssh_is_told_that_there_are_no_files(
    program: str, server: Server, person: Person, pod: str, tmp_path: Path
) -> None:
    host, port = address_of(server)
    (tmp_path / "data").write_text("1")
    files = (str(tmp_path / "data"), f"{pod}@{host}:/tmp/data") if program == "scp" else (f"{pod}@{host}",)
    done = await person.openssh(program, "-P", str(port), *files, sends=b"ls\n")
    assert done.status != 0
    assert "it has no files, so nothing was copied" in done.errors


async def test_a_forwarded_port_is_refused_with_the_reason(server: Server, person: Person, pod: str) -> None:
    async with await person.connect(server, pod) as connection:
        with pytest.raises(asyncssh.ChannelOpenError, match="nothing listens at its port 8080"):
            await connection.open_connection("localhost", 8080)
        with pytest.raises(asyncssh.ChannelListenError):
            await connection.start_server(lambda *_: None, "", 0)
        with pytest.raises(asyncssh.ChannelOpenError):
            await connection.open_unix_connection("/var/run/docker.sock")
        assert (await connection.run("true")).exit_status == 0


async def test_many_sessions_share_a_connection(server: Server, person: Person, pod: str) -> None:
    async with await person.connect(server, pod) as connection:
        done = await asyncio.gather(*(connection.run(f"exit {number}") for number in range(20)))
        assert [each.exit_status for each in done] == list(range(20))
