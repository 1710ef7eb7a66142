"""`kubectl relay`: the list of commands, and their exit statuses."""

import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated

import typer
from typer.completion import get_completion_inspect_parameters

from relay_cli.adopt import adopt
from relay_cli.completion import VARIABLE, offer, script_of
from relay_cli.cost import cost
from relay_cli.deposit import deposit
from relay_cli.doctor import doctor
from relay_cli.failures import Failure, Status
from relay_cli.logs import logs
from relay_cli.models import models
from relay_cli.options import command
from relay_cli.plan import plan
from relay_cli.ssh import ssh
from relay_cli.terminal import complain, say
from relay_cli.top import top

_HELP = "Show what runs in the GPU cloud and what it costs, with your kubeconfig and your rights."


def application() -> typer.Typer:
    """All commands, one line each."""
    app = typer.Typer(help=_HELP, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.callback()(_before_commands)
    app.command()(command(top))
    app.command()(command(models))
    app.command()(command(cost))
    app.command()(command(plan))
    app.command()(command(adopt))
    app.command()(command(doctor))
    app.command()(command(deposit))
    app.command()(command(ssh))
    app.command()(command(logs))
    app.command()(script_of(app))
    get_completion_inspect_parameters()  # this initializes typer's table of shells
    return app


def _tell_version(wanted: bool) -> None:
    if wanted:
        say(f"kubectl relay {version('relay-operator')}\n")
        raise typer.Exit


_Version = Annotated[bool, typer.Option("--version", callback=_tell_version, help="Show the version and exit.")]


def _before_commands(*, show_version: _Version = False) -> None:
    """Take the options that belong to no command."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `kubectl relay COMMAND`; returns 1 if something is wrong, 2 if the command line is."""
    words, app = arguments or sys.argv[1:] or ["--help"], application()
    try:
        return app(words, prog_name="kubectl relay", complete_var=VARIABLE, standalone_mode=False) or 0
    except Failure as failed:
        return _ended(str(failed), failed.status)
    except typer.TyperException as misused:
        sentence = " ".join(misused.format_message().replace("Value error, ", "").split())
        return _ended(sentence, Status.MISUSED)
    except typer.Abort:
        return _ended("aborted", Status.FOUND_WRONG)


def complete(words: Sequence[str] | None = None) -> int:
    """Answer `kubectl_complete-relay WORD...`, which kubectl runs while people type `kubectl relay WORD...`."""
    offer(application(), sys.argv[1:] if words is None else words)
    return 0


def _ended(sentence: str, status: Status) -> int:
    complain(sentence)
    return status


if __name__ == "__main__":
    sys.exit(main())
