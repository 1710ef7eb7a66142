"""The answers of a shell without a container: what it is, and that it ran nothing. Pure."""

from dataclasses import dataclass
from typing import Final

from relay_localcloud.ssh.admission import Place

NOT_RUN: Final = 126
"""The exit status of a command that was found and cannot be executed, which no script takes for success."""
_WRONG: Final = 2


@dataclass(frozen=True, slots=True)
class Said:
    """The answer to a line and its exit status; `ends` says whether it ends the shell."""

    text: str
    status: int
    ends: bool = False


def greeting(there: Place) -> str:
    """The first text of a shell."""
    return (
        f"The {there.noun} {there.id} is simulated: it is placed and billed, but no container runs in it, so no "
        "command does.\n`exit 3` ends this shell with the status 3.\n"
    )


def prompt(there: Place) -> str:
    """The prompt of a shell."""
    return f"{there.id} (simulated)$ "


def answer(there: Place, line: str) -> Said:
    """The answer to a line of a shell, or to a command; `exit` and `true` work as in any shell."""
    match line.split():
        case []:
            return Said("", 0)
        case ["true" | ":"]:
            return Said("", 0)
        case ["exit" | "logout"]:
            return Said("", 0, ends=True)
        case ["exit" | "logout", status] if status.isascii() and status.isdigit():
            return Said("", int(status) % 256, ends=True)
        case ["exit" | "logout", *_]:
            return Said("exit: a number from 0 to 255 is wanted\n", _WRONG)
    return Said(f"The {there.noun} {there.id} is simulated: no container runs in it, so this was not run.\n", NOT_RUN)


def no_files(there: Place) -> str:
    """The answer to sftp and scp."""
    return f"The {there.noun} {there.id} is simulated: it has no files, so nothing was copied.\n"


def no_port(there: Place, port: int) -> str:
    """The answer to a client that forwards a port."""
    return f"The {there.noun} {there.id} is simulated: nothing listens at its port {port}; its endpoint answers HTTP"
