"""Gives the event loop its turns between slices of work on records."""

import asyncio
import time
from collections.abc import Callable

SLICE_SECONDS = 0.002
TURNS = 4
"""From a reply on a socket to the task that waits for it the event loop takes several turns, not one."""


class Pace:
    """Shared by all streams of records of one event loop, so that together they take one slice at a time.

    Each stream calls `turn` before a piece of work of about a millisecond. Streams that each yielded on their own
    would hold up a pod all the same: five hundred batches with 2 ms each are a second in one turn of the loop.
    """

    # Measured, 200 MB in 100,000 records, a timer of 1 ms beside it: with one turn after each 5 ms the timer was 14 ms
    # late, with these figures 1 ms. A worker thread made it 0.1 ms, but takes the interpreter's lock back for each row
    # of SQLite, which under a busy event loop means a switch of threads a record, and a hand-over for each piece.

    def __init__(self, seconds: float = SLICE_SECONDS, clock: Callable[[], float] = time.perf_counter) -> None:
        self._seconds = seconds
        self._clock = clock
        self._next = asyncio.Lock()
        self._until = clock() + seconds

    async def turn(self) -> None:
        """Return once there is time left in the slice; those who wait are served in order."""
        if self._clock() < self._until:
            return
        async with self._next:
            for _ in range(TURNS):
                await asyncio.sleep(0)
            self._until = self._clock() + self._seconds
