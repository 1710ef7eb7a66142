"""Makes a history that fails shorter, by leaving acts out and playing it again."""

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
    """The shortest that was seen to fail; `fails` plays one.

    Half of the acts are left out, then a quarter, and so on down to single ones: the later ones first, since what
    follows the failure is in nobody's way.
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
