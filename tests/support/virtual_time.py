"""An event loop on which waiting takes no time, so that a bound is reached only where nothing comes."""

from __future__ import annotations

import asyncio
import selectors
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tests.support.eventually import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
_QUIET_SECONDS: Final = 0.05
"""How long nothing must come before the clock jumps: the kernel may take its time between two sockets."""


class _Waiting(selectors.DefaultSelector):
    """Waits for real events only; where none come, the time that would have been waited for has passed."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.in_threads = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            events = super().select(PATIENCE_SECONDS)
            if not events:
                raise AssertionError("the test waits, without a bound, for what never comes")
            return events
        if timeout <= 0:
            return super().select(timeout)
        if self.in_threads:
            began = time.monotonic()
            events = super().select(timeout)
            self.now += min(time.monotonic() - began, timeout)
            return events
        events = super().select(min(timeout, _QUIET_SECONDS))
        if not events:
            self.now += timeout
        return events


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Its clock stands still while anything happens, however slow the machine is, and jumps to the next timer else.

    It cannot know what other processes do; while a job runs in its executor, the clock goes on as any other.
    """

    def __init__(self) -> None:
        self._waiting = _Waiting()
        super().__init__(self._waiting)

    def time(self) -> float:
        """The seconds for which this loop has waited."""
        return self._waiting.now

    def run_in_executor(  # type: ignore[override]  # its arguments' types are asyncio's own
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """As asyncio's."""
        job = super().run_in_executor(executor, func, *args)
        self._waiting.in_threads += 1
        job.add_done_callback(self._ended)
        return job

    def _ended(self, _job: object) -> None:
        self._waiting.in_threads -= 1
