"""Gives the event loop its turn between slices of work on records."""

import asyncio
import time
from collections.abc import Callable

SLICE_SECONDS = 0.005


class Pace:
    """Shared by all streams of records of one event loop, so that they take one slice in a turn of it together.

    Each stream calls `turn` before a piece of work of about a millisecond. Streams that each yielded on their own would
    still hold up a pod's reconciliation: five hundred batches with 5 ms each are 2.5 s in one turn of the loop.
    Threads would not do better: parsing holds the interpreter, so that a busy worker thread delays every callback of
    the loop by the interpreter's switch interval, 5 ms as well, and handing over a piece costs more than a turn.
    """

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
            await asyncio.sleep(0)
            self._until = self._clock() + self._seconds
