"""Completion of a command line: for shells directly, and through kubectl."""

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
"""The environment variable with which a shell's script asks for completions."""
NO_FILES: Final = 4
"""Tells kubectl not to offer files if there are no completions."""
FILES: Final = 0
"""Tells kubectl to offer files if there are no completions."""
_OF_FILES: Final = frozenset({"-f", "--filename", "--kubeconfig"})
"""The options whose value is a file."""


class Shell(StrEnum):
    """Shells with a script."""

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
    """Print the completions of the last word, one per line, and kubectl's directive."""
    told = StringIO()
    with redirect_stdout(told):
        _answer(app, "complete_bash", COMP_WORDS=shlex.join([_PROGRAM, *words]), COMP_CWORD=str(len(words)))
    offered = filter(None, told.getvalue().splitlines())  # an empty line would offer an empty word
    directive = FILES if _OF_FILES.intersection(words[-2:-1]) else NO_FILES
    typer.echo("\n".join([*offered, f":{directive}"]))


def _answer(app: typer.Typer, instruction: str, **environment: str) -> None:
    """Run typer's completion, which takes its instructions from the environment."""
    os.environ.update(environment, **{VARIABLE: instruction})
    try:
        app([], prog_name=_PROGRAM, complete_var=VARIABLE)
    except SystemExit:
        return
    finally:
        del os.environ[VARIABLE]
