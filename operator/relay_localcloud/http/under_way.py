"""Requests under way: they end with the cloud, and if its state is replaced, so that none writes into the new one."""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import Final, TypeVar

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from relay_localcloud.http.connections import ABORT
from relay_localcloud.http.errors import ApiError, ErrorAnswer
from relay_localcloud.http.exchange import exchange_of

LAST_WORDS_SECONDS: Final = 1.0
"""How long a client that is slow to read may take until it has room for them."""

_Answer = TypeVar("_Answer")


class Replaced(Exception):
    """The state was replaced while this request was under way."""


class UnderWay:
    """The requests under way, on every port."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[object]] = set()
        self._ended: set[asyncio.Task[object]] = set()
        self._one_left = asyncio.Event()

    async def answer(self, answering: Awaitable[_Answer]) -> _Answer:
        """Await the answer in this task; raises Replaced if it was ended."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            return await answering
        except asyncio.CancelledError:
            if task not in self._ended:
                raise
            task.uncancel()
            raise Replaced from None
        finally:
            self._tasks.discard(task)
            self._ended.discard(task)
            self._one_left.set()

    def end_others(self) -> None:
        """End every request but the caller's: none of them takes another step."""
        others = self._tasks - {asyncio.current_task()} - self._ended
        self._ended |= others
        for task in others:
            task.cancel()

    async def others_ended(self) -> None:
        """Return once all of them have ended."""
        while self._ended:
            self._one_left.clear()
            await self._one_left.wait()


def replaced_error() -> ApiError:
    """The 503 for a request under way."""
    return ApiError(503, "The cloud's whole state was replaced while this was under way.")


class EndedFromOutside:
    """Answers 503 if the state was replaced meanwhile or the cloud ends, or cuts an answer that had begun."""

    def __init__(self, app: ASGIApp, under_way: UnderWay, refused: ErrorAnswer) -> None:
        self._app = app
        self._under_way = under_way
        self._refused = refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        begun = complete = False

        async def send_noted(message: Message) -> None:
            nonlocal begun, complete
            begun = True
            await send(message)
            complete = message["type"] == "http.response.body" and not message.get("more_body", False)

        try:
            await self._under_way.answer(self._app(scope, receive, send_noted))
        except Replaced:
            error = replaced_error()
        except asyncio.CancelledError:  # by the server, a second after it was told to end
            error = ApiError(503, "The cloud ends while this is under way.")
        else:
            return
        if not begun:
            await self._refused(error, scope)(scope, receive, send)
        elif not complete:  # leave a complete one alone: the caller's next request may use its connection
            await self._cut(error, scope, send)

    async def _cut(self, error: ApiError, scope: Scope, send: Send) -> None:
        """Let the answer say that it is cut, if it can; break it off if it cannot, or if nobody reads it."""
        last_words, broken_off = exchange_of(scope).last_words, True
        if last_words is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_WORDS_SECONDS):
                    await send({"type": "http.response.body", "body": last_words(error)})
                    broken_off = False
        if broken_off:
            scope["extensions"][ABORT]()
