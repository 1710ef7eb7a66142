"""Shortens a failing history by leaving out acts and playing it again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.faults.explorer.history import History

MOST_RUNS: Final = 20


async def shortened(
    history: History, fails: Callable[[History], Awaitable[bool]], most_runs: int = MOST_RUNS
) -> History:
    """Returns the shortest history that was seen to fail, after at most `most_runs` plays; `fails` plays one.

    Leaves out half of the acts, then a quarter, and so on down to single ones; later acts first, since those after
    the failure do not matter.
    """
    size, runs = (len(history.acts) + 1) // 2, 0
    while size and history.acts:
        end, shorter = len(history.acts), False
        while end > 0:
            if runs == most_runs:
                return history
            without = replace(history, acts=history.acts[: max(end - size, 0)] + history.acts[end:])
            runs += 1
            if await fails(without):
                history, shorter = without, True
            end -= size
        size = min(size, len(history.acts)) if shorter and size == 1 else size // 2
    return history
