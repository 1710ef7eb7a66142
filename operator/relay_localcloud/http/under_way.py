"""What is being answered: it ends where the state is replaced, so that it cannot write into the other one."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from relay_localcloud.http.connections import ABORT
from relay_localcloud.http.errors import ApiError, ErrorAnswer

_Answer = TypeVar("_Answer")


class Replaced(Exception):
    """The state was replaced while this was being answered."""


class UnderWay:
    """The requests that are being answered, on every port."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[object]] = set()
        self._ended: set[asyncio.Task[object]] = set()
        self._one_left = asyncio.Event()

    async def answer(self, answering: Awaitable[_Answer]) -> _Answer:
        """What is awaited, in this task; Replaced once it was ended."""
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
        """End every request but the caller's: none of them does another step."""
        others = self._tasks - {asyncio.current_task()} - self._ended
        self._ended |= others
        for task in others:
            task.cancel()

    async def others_ended(self) -> None:
        """Return once all that were told to end have."""
        while self._ended:
            self._one_left.clear()
            await self._one_left.wait()


def replaced_error() -> ApiError:
    """503: what a request under way is answered."""
    return ApiError(503, "The cloud's whole state was replaced while this was under way.")


class EndedByReplacement:
    """Answers 503 where the state was replaced meanwhile, or breaks the answer off that had begun."""

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
            if not begun:
                await self._refused(replaced_error(), scope)(scope, receive, send)
            elif not complete:  # a complete one is left alone: the caller's next request may be on its connection
                scope["extensions"][ABORT]()
