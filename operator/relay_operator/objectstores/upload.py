"""An upload in parts that is always completed or aborted, never left half done, whatever ends it."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, Generic, TypeVar

_Result = TypeVar("_Result")
_ABORT_SECONDS = 20.0


class _Aborted(Exception):
    """Raised in the upload's source: libraries abort an upload whose source fails, but not a cancelled one."""


class Upload(Generic[_Result]):
    """Feeds parts to `put`, which completes an upload when they end and aborts it when they raise.

    `put` must take the next part only after the previous one has arrived. Cancelling `put` would leave the parts in the
    bucket, hidden and paid for.
    """

    def __init__(self, put: Callable[[AsyncIterator[bytes]], Awaitable[_Result]]) -> None:
        self._put = put
        self._handed: asyncio.Queue[bytes | _Aborted | None] = asyncio.Queue(1)

    async def run(self, first: bytes, rest: AsyncIterator[bytes]) -> _Result:
        """Return what `put` returned; raise what `rest` or `put` raise, once the upload is aborted."""
        upload = asyncio.ensure_future(self._put(self._source()))
        try:
            await self._hand(first, upload)
            async for part in rest:
                await self._hand(part, upload)
            await self._hand(None, upload)
            return await asyncio.shield(upload)
        finally:
            if not upload.done():
                await self._abort(upload)

    async def _source(self) -> AsyncGenerator[bytes, None]:
        while (part := await self._handed.get()) is not None:
            if isinstance(part, _Aborted):
                yield b"\0"  # taken while no part is in flight: a part that arrives after the abort would stay for ever
                raise part
            yield part

    async def _hand(self, part: bytes | None, upload: asyncio.Future[_Result]) -> None:
        """Wait until the part is taken; if the upload ends first, raise its error."""
        handing = asyncio.ensure_future(self._handed.put(part))
        try:
            either: set[asyncio.Future[Any]] = {handing, upload}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            handing.cancel()
        if upload.done():
            upload.result()

    async def _abort(self, upload: asyncio.Future[_Result]) -> None:
        while not self._handed.empty():
            self._handed.get_nowait()
        self._handed.put_nowait(_Aborted())
        await asyncio.wait([upload], timeout=_ABORT_SECONDS)
        if not upload.cancel() and not upload.cancelled():
            upload.exception()


class _NothingToSend(Exception):
    """Makes a library abort the upload that it has begun."""


async def begin_and_abort(put: Callable[[AsyncIterator[bytes]], Awaitable[object]]) -> None:
    """Let `put` begin an upload and abort it, even when cancelled meanwhile; raises what `put` raises."""
    upload = asyncio.ensure_future(put(_nothing_to_send()))
    try:
        await asyncio.shield(upload)
    except _NothingToSend:
        return
    finally:
        if not upload.done():
            await asyncio.wait([upload], timeout=_ABORT_SECONDS)
            upload.cancel()


async def _nothing_to_send() -> AsyncGenerator[bytes, None]:
    raise _NothingToSend
    yield b""
