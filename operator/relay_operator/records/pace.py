"""Lets the event loop run between slices of work on records."""

import asyncio
import time
from collections.abc import Callable

SLICE_SECONDS = 0.002
TURNS = 4
"""The event loop needs several turns, not one, from a reply on a socket to the task that waits for it."""


class Pace:
    """Shared by all streams of records of one event loop, so that together they take one slice at a time.

    Each stream calls `turn` before about a millisecond of work. Yielding separately would not be enough: five hundred
    batches with 2 ms each block one turn of the loop, and thereby every pod, for a second.
    """

    # Measured with 200 MB in 100,000 records and a 1 ms timer: with one turn after each 5 ms the timer was 14 ms late,
    # with these figures 1 ms. A worker thread made it 0.1 ms, but takes the interpreter's lock back for each row of
    # SQLite: with a busy event loop, that is a thread switch per record, and a hand-over per piece.

    def __init__(self, seconds: float = SLICE_SECONDS, clock: Callable[[], float] = time.perf_counter) -> None:
        self._seconds = seconds
        self._clock = clock
        self._next = asyncio.Lock()
        self._until = clock() + seconds

    async def turn(self) -> None:
        """Return once the slice has time left; callers are served in order."""
        if self._clock() < self._until:
            return
        async with self._next:
            for _ in range(TURNS):
                await asyncio.sleep(0)
            self._until = self._clock() + self._seconds
