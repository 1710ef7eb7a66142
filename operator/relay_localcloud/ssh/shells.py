"""A session of a simulated cloud: a shell, a command or a subsystem that answers that no container runs."""

from collections.abc import Mapping
from typing import Final

from asyncssh import SSHServerChannel, SSHServerSession

from relay_localcloud.ssh import simulated
from relay_localcloud.ssh.admission import Place
from relay_localcloud.ssh.passing import Counted

_LONGEST_LINE: Final = 4096
"""Characters; a longer line counts as several."""
_FILES: Final = "sftp"


class SimulatedShell(SSHServerSession[str]):
    """Answers each line at once with a sentence."""

    _channel: SSHServerChannel[str]

    def __init__(self, there: Place, whose: Counted) -> None:
        self._there = there
        self._whose = whose
        self._said: simulated.Said | None = None
        """The answer that ends the session; None for a shell that has not ended."""
        self._terminal = False
        self._begun = ""
        self._status = 0

    def connection_made(self, chan: SSHServerChannel[str]) -> None:
        """Remember the channel."""
        self._channel = chan

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop counting the session."""
        self._whose.closed()

    def pty_requested(
        self, term_type: str, term_size: tuple[int, int, int, int], term_modes: Mapping[int, int]
    ) -> bool:
        """True: asyncssh's line editor is the terminal."""
        self._terminal = True
        return True

    def shell_requested(self) -> bool:
        """True: the session is a shell."""
        return True

    def exec_requested(self, command: str) -> bool:
        """Answer a command like a line of a shell."""
        self._said = simulated.answer(self._there, command)
        return True

    def subsystem_requested(self, subsystem: str) -> bool:
        """Answer sftp that there are no files; False for any other subsystem."""
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
        """Answer the lines that are typed or piped in."""
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

    def pause_writing(self) -> None:
        """Read no further lines: the client does not take the answers."""
        self._channel.pause_reading()

    def resume_writing(self) -> None:
        """Read lines again."""
        self._channel.resume_reading()

    def eof_received(self) -> bool:
        """End a shell with the status of its last line."""
        if self._said is None:
            self._channel.exit(self._status)
        return False

    def break_received(self, msec: int) -> bool:
        """Start a new line on Ctrl-C."""
        self._channel.write("\n")
        self._ask()
        return True

    def _ask(self) -> None:
        if self._terminal:
            self._channel.write(simulated.prompt(self._there))

    def _tell(self, text: str) -> None:
        """Write to the terminal, or else to stderr: the text is not output of the command, which did not run."""
        if self._terminal:
            self._channel.write(text)
        else:
            self._channel.write_stderr(text)
