"""Reads a file to its end despite broken connections, and never takes a part for the whole."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Self, TypeVar

from relay_client import errors
from relay_client.errors import CloudError
from relay_client.operations import DOWNLOAD_FILE
from relay_client.pool import BrokenOffError, OpenAnswer
from relay_client.ranges import Part, ends_before
from relay_client.redaction import presentable
from relay_client.retry import CallPolicy, pause

ResultT = TypeVar("ResultT")


class Download(AsyncIterator[bytes]):
    """The bytes of one file from a position on: a context manager around an iterator that ends where the file ends.

    After a break it requests the rest; if the service ignores ranges, it skips what it has read already. It raises
    CloudError after `max_attempts` in a row without progress, and at once after a permanent error.
    """

    def __init__(
        self,
        opened: Callable[[int, str | None], Awaitable[tuple[OpenAnswer, Part]]],
        sleep: Callable[[float], Awaitable[None]],
        random: Callable[[], float],
        policy: CallPolicy,
        position: int,
    ) -> None:
        if position < 0:
            raise ValueError("the offset of a download cannot be negative")
        self._opened = opened
        self._sleep = sleep
        self._random = random
        self._policy = policy
        self._attempt = 1
        self._position = position
        """The offset behind the last byte handed out."""
        self._at = 0
        """The offset behind the last byte read from the current answer."""
        self._answer: OpenAnswer | None = None
        self._part = Part(0, None, None)
        self._total: int | None = None
        self._etag: str | None = None

    async def __aenter__(self) -> Self:
        await self._patiently(self._open)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def __anext__(self) -> bytes:
        piece = await self._patiently(self._piece)
        if not piece:
            raise StopAsyncIteration
        return piece

    async def _patiently(self, step: Callable[[], Awaitable[ResultT]]) -> ResultT:
        while True:
            try:
                return await step()
            except CloudError as error:
                await self._close()
                wait = pause(error, DOWNLOAD_FILE.api, self._attempt, self._policy, self._random())
                if wait is None:
                    raise
                self._attempt += 1
            await self._sleep(wait)

    async def _piece(self) -> bytes:
        """The next bytes; empty at the end of the file."""
        while self._position != self._total:
            answer = self._answer or await self._open()
            piece = await self._read(answer)
            if not piece:
                await self._part_ended()
            elif fresh := piece[max(0, len(piece) - (self._at - self._position)) :]:
                self._position = self._at
                self._attempt = 1
                return fresh
        await self._close()
        return b""

    async def _open(self) -> OpenAnswer:
        self._answer, part = await self._opened(self._position, self._etag)
        self._begin(part)
        return self._answer

    def _begin(self, part: Part) -> None:
        totals, etags = {self._total, part.total} - {None}, {self._etag, part.etag} - {None}
        if len(totals) > 1 or len(etags) > 1:
            raise errors.Unreadable(DOWNLOAD_FILE.name, "the file changed while it was read")
        self._total, self._etag = self._total or part.total, self._etag or part.etag
        if self._total is None and part.end is not None:
            raise errors.Unreadable(DOWNLOAD_FILE.name, "cannot read the answer: it does not say where the file ends")
        if self._total is not None and self._total < self._position:
            raise ends_before(self._position, self._total)
        self._part, self._at = part, part.start

    async def _read(self, answer: OpenAnswer) -> bytes:
        try:
            piece = await answer.piece()
        except BrokenOffError as cut:
            raise self._truncated(str(cut)) from None
        self._at += len(piece)
        if self._part.end is not None and self._at > self._part.end:
            raise errors.Unreadable(DOWNLOAD_FILE.name, "cannot read the answer: it goes on after its end")
        return piece

    async def _part_ended(self) -> None:
        await self._close()
        end = self._total if self._part.end is None else self._part.end
        if end is None:
            self._total = self._at
            if self._total < self._position:
                raise ends_before(self._position, self._total)
        elif self._at != end:
            raise self._truncated(f"its end was told to be at {end}")

    def _truncated(self, how: str) -> errors.Truncated:
        text = presentable(f"the answer broke off at byte {self._at} of the file: {how}")
        return errors.Truncated(DOWNLOAD_FILE.name, text)

    async def _close(self) -> None:
        if self._answer is not None:
            answer, self._answer = self._answer, None
            await answer.aclose()
