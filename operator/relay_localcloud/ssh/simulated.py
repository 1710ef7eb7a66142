"""What a shell says where no container runs: what it is, and that it ran nothing. Pure."""

from dataclasses import dataclass
from typing import Final

from relay_localcloud.ssh.admission import Place

NOT_RUN: Final = 126
"""The status of what a shell finds and cannot execute: no script takes it for success."""
_WRONG: Final = 2


@dataclass(frozen=True, slots=True)
class Said:
    """What is said of a line, for stderr, and its status; `ends` the shell."""

    text: str
    status: int
    ends: bool = False


def greeting(there: Place) -> str:
    """What a shell begins with."""
    return (
        f"The {there.noun} {there.id} is simulated: it is placed and billed, but no container runs in it, so no "
        "command does.\n`exit 3` ends this shell with the status 3.\n"
    )


def prompt(there: Place) -> str:
    """What a line is asked for with."""
    return f"{there.id} (simulated)$ "


def answer(there: Place, line: str) -> Said:
    """What is said of a line of a shell, or of a command: `exit` and `true` do what they do everywhere."""
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
    """What is said to sftp and scp."""
    return f"The {there.noun} {there.id} is simulated: it has no files, so nothing was copied.\n"


def no_port(there: Place, port: int) -> str:
    """What is said to who forwards a port."""
    return f"The {there.noun} {there.id} is simulated: nothing listens at its port {port}; its endpoint answers HTTP"
