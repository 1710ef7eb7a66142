"""`make demo`: starts the whole system, applies the examples, and prints what happens as it happens."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from typing import TYPE_CHECKING

import aiohttp
from rich.console import Console
from rich.text import Text

from hack.demo import answers, happenings, promise, stage
from hack.demo.happenings import Happening, Source, Tone, Watcher
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.process import StartError
from tests.support.toolchain import REPOSITORY, BuildError

if TYPE_CHECKING:
    from hack.demo.stage import Stage
    from tests.support.kube import Manifest

_TICK = 0.15
_COLOURS = {Source.OBJECT: "cyan", Source.CALL: "magenta", Source.WEBHOOK: "yellow"}
_TONES = {Tone.PLAIN: "", Tone.GOOD: "bold green", Tone.BAD: "red"}
_console = Console(highlight=False, soft_wrap=True)


class Narrator:
    """Prints each event with the seconds since the narrator was created, just before the examples are applied."""

    def __init__(self, on_stage: Stage) -> None:
        self._start = time.monotonic()
        self._stage = on_stage
        self._watcher = Watcher(on_stage)

    def tell(self, happening: Happening) -> None:
        """Prints one line: time, source, subject, text."""
        line = Text(f"{time.monotonic() - self._start:7.1f} s  ", style="dim")
        line.append(f"{happening.source.value:<11}", style=_COLOURS[happening.source])
        line.append(f"{happening.subject:<32}", style="default")
        line.append(happening.text, style=_TONES[happening.tone] or "default")
        _console.print(line)

    async def tick(self) -> None:
        """Prints what happened since the last tick; restarts an operator that has ended, as Kubernetes would."""
        process = self._stage.operator.process
        if not process.running:
            text = f"exit code {process.exit_code}; started again, as Kubernetes would"
            self.tell(Happening(Source.CALL, "has ended", text, Tone.BAD))
            await self._stage.operator.start()
        for happening in await self._watcher.look():
            self.tell(happening)


async def play(*, once: bool) -> int:
    """Runs the whole demo; returns the exit code."""
    _console.print(
        "\n[bold]relay-operator[/]: GPU-cloud workloads from Kubernetes. All of this runs on your machine, costs "
        "nothing, and ends with Ctrl-C.\n"
    )
    async with stage.set_up(_announce) as on_stage:
        manifests = stage.examples(on_stage.organization)
        _console.print("\n[bold]$ kubectl apply -f examples/[/]")
        narrator = Narrator(on_stage)
        for manifest in manifests:
            await on_stage.kube.apply(manifest, "kubectl")
        problems = await _until_ready(on_stage, narrator, manifests)
        if problems:
            _complain(on_stage, problems)
        else:
            await _show_answers(on_stage, manifests)
        if once:
            return 1 if problems else 0
        if not problems:
            await _second_act(on_stage, narrator)
        _invite(on_stage)
        await _go_on(narrator)
    return 0


async def _until_ready(on_stage: Stage, narrator: Narrator, wanted: list[Manifest]) -> list[str]:
    """Prints what happens until all of examples/ is Ready or Complete, one object has failed, or time is up.

    Returns a sentence for each object that is neither Ready nor Complete; empty on success.
    """
    names = {(one["kind"], one["metadata"]["name"]) for one in wanted if one["kind"] in happenings.SHOWN}
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        await narrator.tick()
        found = await happenings.objects(on_stage)
        items = [one for one in found if (one["kind"], one["metadata"]["name"]) in names]
        problems = happenings.unfinished(items)
        if not problems or any(map(happenings.failed, items)) or time.monotonic() > deadline:
            await narrator.tick()
            return problems
        await asyncio.sleep(_TICK)


async def _show_answers(on_stage: Stage, manifests: list[Manifest]) -> None:
    _console.print()
    for line in await answers.told(on_stage, manifests):
        _console.print(Text(line))


async def _second_act(on_stage: Stage, narrator: Narrator) -> None:
    _console.print(
        "\n[bold]One promise: nothing that costs money is created twice or forgotten.[/] The next create is acted on "
        "by the\ncloud, but its answer is lost, and the operator is killed in that very moment:"
    )
    try:
        created = await promise.keep(on_stage, narrator.tell, narrator.tick)
        style = "bold green" if created == 1 else "bold red"
        _console.print(f"Creates that the cloud has acted on: [{style}]{created}[/]. Now it is deleted again:")
        await promise.clear_away(on_stage, narrator.tick)
    except promise.PromiseError as broken:
        _complain(on_stage, [str(broken)])


async def _go_on(narrator: Narrator) -> None:
    """Prints what happens until Ctrl-C."""
    while True:
        try:
            await narrator.tick()
        except (aiohttp.ClientError, TimeoutError):
            _console.print("[dim]a server does not answer; looking again[/]")
            await asyncio.sleep(1)
        await asyncio.sleep(_TICK)


def _announce(part: str, what: str, seconds: float) -> None:
    _console.print(Text.assemble(("  ✓ ", "green"), f"{part:<15}", what, (f"  {seconds:.1f} s", "dim")))


def _complain(on_stage: Stage, problems: list[str]) -> None:
    _console.print("\n[bold red]Not as it should be:[/]")
    for problem in problems:
        _console.print(Text(f"  {problem}"))
    _console.print(Text(f"The operator's log: {on_stage.operator.log}"))


def _invite(on_stage: Stage) -> None:
    kubectl, cloud = on_stage.kubectl, on_stage.cloud
    lines = (
        ("In another terminal:", ""),
        (f"  export KUBECONFIG={on_stage.cluster.kubeconfig}", ""),
        (f"  {kubectl} get gpod,gcl,ibatch,ibsched,cacct", "the objects"),
        (f"  {kubectl} scale gcl/llm --replicas=4", "through the scale subresource, as an autoscaler does"),
        (f"  {kubectl} describe gpod trainer", "conditions say what is going on, and why"),
        (f"  {kubectl} delete gpod trainer", "ends it in the cloud, and the bill with it"),
        (f"  {kubectl} get ibatch -w", "progress, cost and outcome of batches, as they change"),
        (f"  {kubectl} get cm answers -o jsonpath='{{.data.output\\.jsonl}}'", "the answers, one line per record"),
        (f"  {kubectl} apply -f examples/batches/inline.yaml", "another batch"),
        ("  docs/batches/from-a-file-to-answers.md", "from your own table to answers"),
        (f"  PATH=.venv/bin:.demo:$PATH kubectl relay cost --base-url {cloud.management_url}", "what everything costs"),
        ("The cloud's side:", ""),
        (f"  {cloud.announced['consoleUrl']}", "its console: workloads, nodes, webhooks, faults"),
        (f"  {on_stage.operator.log.relative_to(REPOSITORY)}", "the operator's log, one line per action"),
    )
    _console.print()
    width = max(len(text) for text, _ in lines)
    for text, meaning in lines:
        shown = Text(f"{text:<{width}}").append(f"  # {meaning}", style="dim") if meaning else Text(text, style="bold")
        _console.print(shown)
    _console.print("\n[dim]Here you see what happens. Ctrl-C ends everything.[/]\n")


async def _until_told_to_end(*, once: bool) -> int:
    playing = asyncio.current_task()
    for number in (signal.SIGINT, signal.SIGTERM):
        if playing is not None:
            asyncio.get_running_loop().add_signal_handler(number, playing.cancel)
    return await play(once=once)


def main() -> int:
    """Runs the demo; returns 0 on success, 1 on failure; Ctrl-C counts as failure (130) only with `--once`."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--once", action="store_true", help="end when everything in examples/ is Ready or Complete")
    once: bool = parser.parse_args().once
    try:
        return asyncio.run(_until_told_to_end(once=once))
    except (stage.DemoError, StartError, BuildError, AssertionError) as failed:
        _console.print(Text(str(failed), style="red"))
        return 1
    except asyncio.CancelledError:
        _console.print("\n[dim]everything has ended[/]")
        return 130 if once else 0


if __name__ == "__main__":
    sys.exit(main())
