"""A session where no container runs: a shell, a command or a subsystem that says so."""

from collections.abc import Mapping
from typing import Final

from asyncssh import SSHServerChannel, SSHServerSession

from relay_localcloud.ssh import simulated
from relay_localcloud.ssh.admission import Place
from relay_localcloud.ssh.passing import Counted

_LONGEST_LINE: Final = 4096
"""Characters; what is longer counts as several lines."""
_FILES: Final = "sftp"


class SimulatedShell(SSHServerSession[str]):
    """Answers each line with a sentence, at once."""

    _channel: SSHServerChannel[str]

    def __init__(self, there: Place, whose: Counted) -> None:
        self._there = there
        self._whose = whose
        self._said: simulated.Said | None = None
        """What ends it as soon as it begins; None: it is a shell."""
        self._terminal = False
        self._begun = ""
        self._status = 0

    def connection_made(self, chan: SSHServerChannel[str]) -> None:
        """It is open."""
        self._channel = chan
        self._whose.opened()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self._whose.closed()

    def pty_requested(
        self, term_type: str, term_size: tuple[int, int, int, int], term_modes: Mapping[int, int]
    ) -> bool:
        """The line editor is the terminal."""
        self._terminal = True
        return True

    def shell_requested(self) -> bool:
        """A shell."""
        return True

    def exec_requested(self, command: str) -> bool:
        """A command, which is answered as a line of a shell is."""
        self._said = simulated.answer(self._there, command)
        return True

    def subsystem_requested(self, subsystem: str) -> bool:
        """Sftp, to be told that there are no files; others are not there."""
        if subsystem == _FILES:
            self._said = simulated.Said(simulated.no_files(self._there), simulated.NOT_RUN)
        return subsystem == _FILES

    def session_started(self) -> None:
        """Greet, or answer and end."""
        if self._said is not None:
            self._tell(self._said.text)
            self._channel.exit(self._said.status)
        else:
            self._tell(simulated.greeting(self._there))
            self._ask()

    def data_received(self, data: str, datatype: int | None) -> None:
        """What is typed, or piped in."""
        self._whose.touch()
        if self._said is not None:
            return
        *lines, self._begun = (self._begun + data).split("\n")
        if len(self._begun) > _LONGEST_LINE:
            lines, self._begun = [*lines, self._begun], ""
        for line in lines:
            said = simulated.answer(self._there, line)
            self._tell(said.text)
            self._status = said.status
            if said.ends:
                self._said = said
                self._channel.exit(said.status)
                return
            self._ask()

    def eof_received(self) -> bool:
        """The status of a shell is that of its last line."""
        if self._said is None:
            self._channel.exit(self._status)
        return False

    def break_received(self, msec: int) -> bool:
        """Ctrl-C: another line."""
        self._channel.write("\n")
        self._ask()
        return True

    def _ask(self) -> None:
        if self._terminal:
            self._channel.write(simulated.prompt(self._there))

    def _tell(self, text: str) -> None:
        """On the terminal, or on stderr: what a command says that did not run is no output of its."""
        if self._terminal:
            self._channel.write(text)
        else:
            self._channel.write_stderr(text)
