"""Runs a client in a thread with an event loop of its own, so that what it computes holds up only its own user.

OpenSSL decodes every certificate that a server sends before it verifies any, which a hostile server makes last for many
seconds, and nothing interrupts it. It lets other threads run meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")
_Client = TypeVar("_Client")
_END_SECONDS = 5.0
"""How long the end of the use waits for the end of the client, which then happens later."""
# More than are ever in use: the 64 transfers that settings admit have an input and an output, and checks of outputs are
# fewer than the workers. The others are for clients that end later than their use.
_THREADS = ThreadPoolExecutor(256, thread_name_prefix="client")


@dataclass(frozen=True, slots=True)
class OwnThread(Generic[_Client]):
    """A client that is used from another event loop, its user's. Only its own thread calls it."""

    client: _Client
    _loop: asyncio.AbstractEventLoop
    _users: asyncio.AbstractEventLoop

    def run(self, work: Coroutine[Any, Any, _T]) -> asyncio.Future[_T]:
        """The outcome of work with the client; cancelling it cancels the work, without waiting for its end."""
        return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def soon(self, call: Callable[[], object]) -> None:
        """Make a call that does not block, in order with other calls and the beginnings of work."""
        self._loop.call_soon_threadsafe(call)

    async def pulled(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """For work: the pieces, each made on the user's event loop once the work asks for it."""

        async def following() -> bytes | None:
            return await anext(pieces, None)

        while (
            piece := await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(following(), self._users))
        ) is not None:
            yield piece


@asynccontextmanager
async def own_thread(opening: AbstractAsyncContextManager[_Client]) -> AsyncIterator[OwnThread[_Client]]:
    """A thread in which the client is opened, used, and closed; raises what `opening` raises.

    At the end, work under way is cancelled, and its end is waited for, but not for long.
    """
    users = asyncio.get_running_loop()
    opened, over = Future[OwnThread[_Client]](), Future[None]()

    async def live() -> None:
        async with opening as client:
            opened.set_result(OwnThread(client, asyncio.get_running_loop(), users))
            await asyncio.wrap_future(over)

    ended = users.run_in_executor(_THREADS, lambda: asyncio.run(live()))
    try:
        begun = asyncio.wrap_future(opened)
        either: set[asyncio.Future[Any]] = {begun, ended}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not begun.done():
            await ended
        yield begun.result()
    finally:
        over.set_result(None)
        await asyncio.wait([ended], timeout=_END_SECONDS)
