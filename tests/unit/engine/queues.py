"""What workers would get of a queue."""

import asyncio

from relay_operator.engine.queue import Queue, Taken


async def taken(queue: Queue[str]) -> Taken[str] | None:
    """What a worker would get without waiting."""
    try:
        async with asyncio.timeout(0):
            return await queue.take()
    except TimeoutError:
        return None


async def drained(queue: Queue[str]) -> list[str]:
    keys = []
    while (one := await taken(queue)) is not None:
        keys.append(one.key)
        queue.done(one.key)
    return keys


async def free_to_take(queue: Queue[str]) -> list[str]:
    """What idle workers would get, none of whom comes to an end."""
    keys = []
    while (one := await taken(queue)) is not None:
        keys.append(one.key)
    return keys
