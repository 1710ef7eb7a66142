"""Somebody else on the event loop, who counts the turns that are left to them."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class Others:
    """How often they had a turn."""

    turns: int = 0

    async def run(self) -> None:
        while True:
            self.turns += 1
            await asyncio.sleep(0)


@contextmanager
def others() -> Iterator[Others]:
    """They take every turn until the block ends."""
    counting = Others()
    task = asyncio.create_task(counting.run())
    try:
        yield counting
    finally:
        task.cancel()
