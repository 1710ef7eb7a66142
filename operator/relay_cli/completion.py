"""What shells offer while a command is typed: their own completion, and kubectl's."""

import os
import shlex
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from enum import StrEnum
from io import StringIO
from typing import Annotated, Final

import typer

_PROGRAM: Final = "kubectl-relay"
VARIABLE: Final = "_KUBECTL_RELAY_COMPLETE"
"""What a shell's script asks by."""
NO_FILES: Final = 4
"""To kubectl: if nothing was offered, no file is meant."""


class Shell(StrEnum):
    """Shells that there is a script for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def script_of(app: typer.Typer) -> Callable[..., None]:
    """The command that prints a shell's script."""

    def completion(shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")]) -> None:
        """Print a script that completes `kubectl-relay` in a shell; kubectl itself completes `kubectl relay`."""
        _answer(app, f"source_{shell}")

    return completion


def offer(app: typer.Typer, words: Sequence[str]) -> None:
    """Prints what may stand in place of the last word, a line each, and what kubectl makes of it."""
    told = StringIO()
    with redirect_stdout(told):
        _answer(app, "complete_bash", COMP_WORDS=shlex.join([_PROGRAM, *words]), COMP_CWORD=str(len(words)))
    offered = filter(None, told.getvalue().splitlines())  # an empty line would offer nothing as a word
    typer.echo("\n".join([*offered, f":{NO_FILES}"]))


def _answer(app: typer.Typer, instruction: str, **environment: str) -> None:
    """Has typer do what it does for scripts of shells, which tell it by the environment."""
    os.environ.update(environment, **{VARIABLE: instruction})
    try:
        app([], prog_name=_PROGRAM, complete_var=VARIABLE)
    except SystemExit:
        return
    finally:
        del os.environ[VARIABLE]
