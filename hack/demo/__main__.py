"""`make demo`: a running system with real resources, from nothing, told as it happens."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import aiohttp
from rich.console import Console
from rich.text import Text

from hack.demo import happenings, stage
from hack.demo.happenings import Happening, Source, Tone, Watcher
from tests.support.process import StartError
from tests.support.toolchain import REPOSITORY, BuildError

if TYPE_CHECKING:
    from hack.demo.stage import Stage
    from tests.support.kube import Manifest

_READY_WITHIN = 120.0
_TICK = 0.15
_COLOURS = {Source.OBJECT: "cyan", Source.CALL: "magenta", Source.WEBHOOK: "yellow"}
_TONES = {Tone.PLAIN: "", Tone.GOOD: "bold green", Tone.BAD: "red"}
_console = Console(highlight=False, soft_wrap=True)


class Narrator:
    """Prints what happens, each line with the seconds since the examples were applied."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    def tell(self, happening: Happening) -> None:
        """One line: when, who, what."""
        line = Text(f"{time.monotonic() - self._start:7.1f} s  ", style="dim")
        line.append(f"{happening.source.value:<11}", style=_COLOURS[happening.source])
        line.append(f"{happening.subject:<24}")
        line.append(happening.text, style=_TONES[happening.tone])
        _console.print(line)


async def play(*, once: bool) -> int:
    """The whole demo; answers the exit code."""
    _console.print(
        "\n[bold]relay-operator[/]: GPU-cloud workloads from Kubernetes. All of this runs on your machine, costs "
        "nothing, and ends with Ctrl-C.\n"
    )
    async with stage.set_up(_announce) as on_stage:
        manifests = stage.examples(on_stage.organization, on_stage.cloud.ports.urls())
        _console.print("\n[bold]$ kubectl apply -f examples/[/]")
        narrator, watcher = Narrator(), Watcher(on_stage)
        for manifest in manifests:
            await on_stage.kube.apply(manifest, "kubectl")
        problems = await _until_ready(on_stage, watcher, narrator, manifests)
        if problems:
            _console.print(f"\n[bold red]Not ready after {_READY_WITHIN:g} s:[/]")
            for problem in problems:
                _console.print(Text(f"  {problem}"))
            _console.print(Text(f"The operator's log: {on_stage.operator.log}"))
        if once:
            return 1 if problems else 0
        _invite(on_stage)
        await _go_on(on_stage, watcher, narrator)
    return 0


async def _until_ready(on_stage: Stage, watcher: Watcher, narrator: Narrator, wanted: list[Manifest]) -> list[str]:
    """Tells what happens until all of examples/ is Ready or Complete; answers what is not when the time is over."""
    names = {(one["kind"], one["metadata"]["name"]) for one in wanted if one["kind"] in happenings.SHOWN}
    deadline = time.monotonic() + _READY_WITHIN
    while True:
        for happening in await watcher.look():
            narrator.tell(happening)
        items = await happenings.objects(on_stage)
        problems = happenings.unfinished(one for one in items if (one["kind"], one["metadata"]["name"]) in names)
        if not problems or time.monotonic() > deadline:
            return problems
        await asyncio.sleep(_TICK)


async def _go_on(on_stage: Stage, watcher: Watcher, narrator: Narrator) -> None:
    """Tells what people do, until Ctrl-C; an operator that ended is started again, as Kubernetes would."""
    while True:
        if not on_stage.operator.process.running:
            _console.print(f"[dim]the operator ended with {on_stage.operator.process.exit_code}: started again[/]")
            await on_stage.operator.start()
        # Somebody may have killed a server to see what happens: the next look tells.
        with suppress(aiohttp.ClientError, TimeoutError):
            for happening in await watcher.look():
                narrator.tell(happening)
        await asyncio.sleep(_TICK)


def _announce(part: str, what: str, seconds: float) -> None:
    _console.print(Text.assemble(("  ✓ ", "green"), f"{part:<15}", what, (f"  {seconds:.1f} s", "dim")))


def _invite(on_stage: Stage) -> None:
    kubectl = on_stage.kubectl
    lines = (
        ("In another terminal:", ""),
        (f"  export KUBECONFIG={on_stage.cluster.kubeconfig}", ""),
        (f"  {kubectl} get gpod,gcl,cacct", "what there is"),
        (f"  {kubectl} scale gcl/llm --replicas=4", "through the scale subresource, as an autoscaler does"),
        (f"  {kubectl} describe gpod trainer", "conditions say what is going on, and why"),
        (f"  {kubectl} delete gpod trainer", "ends it in the cloud, and the bill with it"),
        (f"  kill -9 {on_stage.operator.process.pid}", "nothing is created twice, nothing is forgotten"),
        ("The cloud's side:", ""),
        (f"  {on_stage.cloud.announced['consoleUrl']}", "its console: workloads, nodes, webhooks, faults"),
        (f"  {on_stage.operator.log.relative_to(REPOSITORY)}", "the operator's log, one line an action"),
    )
    _console.print()
    for text, meaning in lines:
        style = "" if text.startswith(" ") else "bold"
        _console.print(Text.assemble((f"{text:<48}", style), (f"  # {meaning}" if meaning else "", "dim")))
    _console.print("\n[dim]Here you see what happens. Ctrl-C ends everything.[/]\n")


async def _until_told_to_end(*, once: bool) -> int:
    playing = asyncio.current_task()
    if playing is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, playing.cancel)
    return await play(once=once)


def main() -> int:
    """Runs the demo; 0 where everything became ready, or was ended by Ctrl-C when that was the way to end it."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--once", action="store_true", help="end when everything in examples/ is Ready or Complete")
    once: bool = parser.parse_args().once
    try:
        return asyncio.run(_until_told_to_end(once=once))
    except (stage.DemoError, StartError, BuildError, AssertionError) as failed:
        _console.print(Text(str(failed), style="red"))
        return 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        _console.print("\n[dim]everything has ended[/]")
        return 130 if once else 0


if __name__ == "__main__":
    sys.exit(main())
