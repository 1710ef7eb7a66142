"""A session in a container: a shell, a command or the image's sftp-server, over the Kubernetes API."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import assert_never

from asyncssh import SSHServerChannel, SSHServerSession

from relay_kube.errors import KubeError
from relay_kube.execution import Execution, Exited, Printed
from relay_localcloud.runtimes.runtime import Containers
from relay_localcloud.ssh import commands
from relay_localcloud.ssh.admission import Place
from relay_localcloud.ssh.passing import Counted, Passing, WaitForTurn


class ContainerSession(Passing, SSHServerSession[bytes]):
    """Executes one command in the container, with the client's terminal or without one."""

    channel: SSHServerChannel[bytes]

    def __init__(self, there: Place, whose: Counted, containers: Containers, turn: WaitForTurn) -> None:
        super().__init__(whose, turn)
        self._there = there
        self._containers = containers
        self._command: Sequence[str] = ()
        self._terminal = ""

    def connection_made(self, chan: SSHServerChannel[bytes]) -> None:
        """Remember the channel."""
        self.channel = chan

    def pty_requested(
        self, term_type: str, term_size: tuple[int, int, int, int], term_modes: Mapping[int, int]
    ) -> bool:
        """Record the terminal's type and size; the terminal itself is the container's."""
        self._terminal = term_type or "dumb"
        self.resized(term_size[:2])
        return True

    def terminal_size_changed(self, width: int, height: int, pixwidth: int, pixheight: int) -> None:
        """Pass the new size on."""
        self.resized((width, height))

    def shell_requested(self) -> bool:
        """Run a shell."""
        self._command = commands.of_shell(self._terminal)
        return True

    def exec_requested(self, command: str) -> bool:
        """Run a command."""
        self._command = commands.of_command(command, self._terminal)
        return True

    def subsystem_requested(self, subsystem: str) -> bool:
        """Run sftp-server; False for any other subsystem."""
        self._command = commands.of_files()
        return subsystem == commands.SFTP

    async def run(self) -> None:
        """Execute the command, and send its exit status."""
        place = (self._there.organization_id, self._there.id)
        try:
            async with self._containers.execute(*place, self._command, terminal=bool(self._terminal)) as execution:
                ended = await self._passed(execution)
        except KubeError as error:
            ended = Exited(commands.NO_SHELL, f"The container of {self._there.id} cannot be reached: {error}")
        if ended.message:
            self.channel.write_stderr(f"{ended.message}\r\n".encode())
        self.channel.exit(ended.status)

    async def _passed(self, execution: Execution) -> Exited:
        """Pass all output on; returns how the process ended."""
        sending = asyncio.create_task(self.send_on(execution, execution.resize, execution.end_input))
        try:
            async for each in execution:
                match each:
                    case Exited():
                        return each
                    case Printed(data, is_error):
                        await self.paced()
                        (self.channel.write_stderr if is_error else self.channel.write)(data)
                    case _ as never:
                        assert_never(never)
        finally:
            sending.cancel()
        raise AssertionError("an execution says how it ended, or raises")
