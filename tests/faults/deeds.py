"""Does the deeds of calls that are held, each as it comes."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tests.support.faultproxy import Held


async def attend(calls: asyncio.Queue[Held], do: Callable[[Held], Coroutine[Any, Any, None]]) -> None:
    """Beside each other: while one waits for another leader, what is held may keep that one from leading.

    Raises what a deed raises. However it ends, what it took from the queue is released.
    """
    following, doing = asyncio.create_task(calls.get()), dict[asyncio.Task[Any], Held]()
    try:
        while True:
            done, _ = await asyncio.wait({following, *doing}, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {following}:
                doing.pop(task).release()
                task.result()
            if following in done:
                held = following.result()
                doing[asyncio.create_task(do(held))] = held
                following = asyncio.create_task(calls.get())
    finally:
        for task in {following, *doing}:
            task.cancel()
        await asyncio.gather(following, *doing, return_exceptions=True)
        last = () if following.cancelled() else (following.result(),)
        for held in (*doing.values(), *last):
            held.release()
