"""Plays histories on a stage; shortens and saves one that fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.faults.explorer.field import Field
from tests.faults.explorer.history import History
from tests.faults.explorer.shortening import MOST_RUNS, shortened
from tests.faults.explorer.walk import Broken, Walk
from tests.support.kube import KubeError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faults.stage import Stage

MOST_RESTARTS: Final = 60
"""The limit on restarts of operators in one history, which may kill them often."""


class Expedition:
    """A stage with two operators and a folder for histories that failed."""

    def __init__(self, stage: Stage, folder: Path) -> None:
        stage.most_restarts = MOST_RESTARTS
        self._stage, self._folder = stage, folder

    async def failure_of(self, history: History) -> tuple[str, History]:
        """Plays a history; returns how it failed, empty if it held, and the acts up to the failure."""
        walks: list[Walk] = []

        async def through(field: Field) -> None:
            walks.append(Walk(self._stage, field, history))
            await walks[0].to_its_end()

        try:
            await self._stage.on(Field.laid_out, through)
        except (AssertionError, Broken, KubeError) as failed:
            done = History(history.name, tuple(walks[0].done)) if walks else history
            told = [str(failed), *getattr(failed, "__notes__", []), *(walks[0].people.answers if walks else [])]
            return "\n".join(told), done
        return "", history

    async def holds(self, history: History) -> None:
        """Plays a history; shortens one that fails, and raises AssertionError with the file that replays it."""
        failure, done = await self.failure_of(history)
        if failure:
            short, failure = await self.shortest(done, failure)
            raise AssertionError(
                f"{failure}\n{told(short)}\nreplay: pytest tests/faults --history {short.save(self._folder)}"
            )

    async def shortest(self, history: History, failure: str, most_runs: int = MOST_RUNS) -> tuple[History, str]:
        """Returns the shortest history that was seen to fail, and how."""
        seen = {history.acts: failure}

        async def fails(shorter: History) -> bool:
            seen[shorter.acts], _ = await self.failure_of(shorter)
            return bool(seen[shorter.acts])

        short = await shortened(history, fails, most_runs)
        return short, seen[short.acts]


def told(history: History) -> str:
    """Returns the acts of a history, one per line."""
    return "\n".join(f"  {number}. {act}" for number, act in enumerate(history.acts, 1))
