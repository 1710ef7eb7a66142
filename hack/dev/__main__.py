"""`make dev`: control plane, local cloud and operator from this checkout; restarts a program when its code changes."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

from hack.demo import stage
from tests.support.process import Process, StartError
from tests.support.toolchain import REPOSITORY, BuildError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hack.demo.stage import Stage

OPERATOR: Final = "operator"
_TICK: Final = 0.5
_CODE: Final = {
    OPERATOR: ("relay_wire", "relay_client", "relay_kube", "relay_operator"),
    "local cloud": ("relay_wire", "relay_localcloud"),
}
"""The packages whose change restarts each program."""
_OPERATOR: Final = Path(sys.executable).with_name("relay-operator")
_DEBUGGED: Final = stage.FOLDER / "operator.env"
_console: Final = Console(highlight=False, soft_wrap=True)


@dataclass
class Program:
    """A process and the modification times of the code that it was started with."""

    name: str
    process: Process
    start: Callable[[], Awaitable[None]]
    code: dict[Path, int] = field(default_factory=dict)
    shown: int = 0
    """Bytes of its log that were printed."""
    running: bool = True
    """Whether it ran at the last check."""

    def __post_init__(self) -> None:
        self.code = self._code()

    def changed(self) -> str:
        """Returns one file that changed since the last call, relative to the repository; empty if none did."""
        before, self.code = self.code, self._code()
        files = {path for path, _ in before.items() ^ self.code.items()}
        return str(min(files).relative_to(REPOSITORY)) if files else ""

    def logged(self) -> str:
        """Returns what the process has logged since the last call."""
        with self.process.log.open("rb") as log:
            log.seek(self.shown)
            lines = log.read()
        self.shown += len(lines)
        return lines.decode(errors="replace")

    def _code(self) -> dict[Path, int]:
        folders = (REPOSITORY / "operator" / package for package in _CODE[self.name])
        found = (path for folder in folders for path in folder.rglob("*") if "__pycache__" not in path.parts)
        return {path: path.stat().st_mtime_ns for path in found if path.is_file()}


async def play(*, debugged: bool) -> None:
    """Runs everything until cancelled; with `debugged`, the operator is left to a debugger."""
    async with stage.set_up(_announce, {"log_format": "console"}) as on_stage:
        await _prepare(on_stage)
        programs = [Program("local cloud", on_stage.cloud.process, on_stage.cloud.start)]
        if debugged:
            await on_stage.operator.stop()
        else:
            programs.append(Program(OPERATOR, on_stage.operator.process, partial(_start_operator, on_stage)))
        _invite(on_stage, debugged=debugged)
        while True:
            for program in programs:
                _console.print(Text(program.logged()), end="")
                await _keep(program)
            await asyncio.sleep(_TICK)


async def _keep(program: Program) -> None:
    process = program.process
    if changed := program.changed():
        _say(f"{changed} has changed: starting the {program.name} again")
        try:
            await process.stop()
            await program.start()
            _say(f"the {program.name} is running again")
        except StartError as failed:
            _say(str(failed))
    if program.running and not process.running:
        _say(f"the {program.name} has ended: change its code to start it again")
    program.running = process.running


async def _start_operator(on_stage: Stage) -> None:
    """Applies the CRDs of this checkout, then starts the operator. Raises StartError."""
    kubectl = f"{on_stage.kubectl} --kubeconfig={on_stage.cluster.kubeconfig}"
    pipe = f"{_OPERATOR} crds | {kubectl} apply --server-side --force-conflicts --filename=-"
    applying = await asyncio.create_subprocess_shell(pipe, stdout=PIPE, stderr=STDOUT)
    told, _ = await applying.communicate()
    if applying.returncode:
        raise StartError(f"the CRDs of this code cannot be applied:\n{told.decode()}")
    await on_stage.operator.start()


async def _prepare(on_stage: Stage) -> None:
    """Creates the account and its key, so that any example can be applied; writes the environment for a debugger."""
    for manifest in stage.examples(on_stage.organization):
        if manifest["kind"] in {"Secret", "CloudAccount"}:
            await on_stage.kube.apply(manifest, "kubectl")
    env = on_stage.operator.process.env or {}
    chosen = {name: value for name, value in env.items() if name.startswith(("RELAY_", "KUBECONFIG"))}
    _DEBUGGED.write_text("".join(f"{name}={value}\n" for name, value in sorted(chosen.items())))


def _invite(on_stage: Stage, *, debugged: bool) -> None:
    _console.print(f"\n  export KUBECONFIG={on_stage.cluster.kubeconfig}")
    _console.print(f"  {on_stage.kubectl} apply -f examples/")
    _console.print(f"  {on_stage.cloud.announced['consoleUrl']}")
    if debugged:
        _console.print(f"  Start `relay-operator run` in your debugger, with the environment in {_DEBUGGED}")
    _console.print()


def _announce(part: str, what: str, seconds: float) -> None:
    _console.print(Text.assemble(("  ✓ ", "green"), f"{part:<15}", what, (f"  {seconds:.1f} s", "dim")))


def _say(text: str) -> None:
    _console.print(Text(f"dev: {text}", style="bold"))


async def _until_told_to_end(*, debugged: bool) -> None:
    playing = asyncio.current_task()
    for number in (signal.SIGINT, signal.SIGTERM):
        if playing is not None:
            asyncio.get_running_loop().add_signal_handler(number, playing.cancel)
    await play(debugged=debugged)


def main() -> int:
    """Runs until Ctrl-C and returns 0; returns 1 if something cannot start."""
    parser = argparse.ArgumentParser(prog="make dev", description=__doc__)
    parser.add_argument("--debugged", action="store_true", help="leave the operator to a debugger")
    try:
        asyncio.run(_until_told_to_end(debugged=parser.parse_args().debugged))
    except (stage.DemoError, StartError, BuildError, AssertionError) as failed:
        _console.print(Text(str(failed), style="red"))
        return 1
    except asyncio.CancelledError:
        _console.print("\n[dim]everything has ended[/]")
    return 0


if __name__ == "__main__":
    sys.exit(main())
