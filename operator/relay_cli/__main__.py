"""`kubectl relay`: the list of commands, and how each ends."""

import sys
from collections.abc import Sequence

import typer

from relay_cli.adopt import adopt
from relay_cli.cost import cost
from relay_cli.deposit import deposit
from relay_cli.doctor import doctor
from relay_cli.failures import Failure, Status, complain
from relay_cli.logs import logs
from relay_cli.models import models
from relay_cli.options import command
from relay_cli.ssh import ssh
from relay_cli.top import top

_HELP = "What runs in the GPU cloud and what it costs, with your kubeconfig and your rights."


def application() -> typer.Typer:
    """All commands, one line each."""
    app = typer.Typer(help=_HELP, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command()(command(top))
    app.command()(command(models))
    app.command()(command(cost))
    app.command()(command(adopt))
    app.command()(command(doctor))
    app.command()(command(deposit))
    app.command()(command(ssh))
    app.command()(command(logs))
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """`kubectl relay COMMAND`; the exit status is 1 if something was found wrong, 2 if it was asked wrongly."""
    try:
        return (
            application()(arguments or sys.argv[1:] or ["--help"], prog_name="kubectl relay", standalone_mode=False)
            or 0
        )
    except Failure as failed:
        return _ended(str(failed), failed.status)
    except typer.TyperException as misused:
        return _ended(misused.format_message(), Status.MISUSED)
    except typer.Abort:
        return _ended("aborted", Status.FOUND_WRONG)


def _ended(sentence: str, status: Status) -> int:
    complain(sentence)
    return status


if __name__ == "__main__":
    sys.exit(main())
