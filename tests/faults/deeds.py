"""Does the deeds of held calls as they arrive."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tests.support.faultproxy import Held


async def attend(calls: asyncio.Queue[Held], do: Callable[[Held], Coroutine[Any, Any, None]]) -> None:
    """Does the deeds concurrently: one may wait for another leader, which a second held call keeps from leading.

    Raises what a deed raises. Releases every call that it took from the queue, however it ends.
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
