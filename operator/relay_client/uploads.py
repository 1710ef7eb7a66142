"""Streams a file as a multipart form, within time limits."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field

from relay_client.answers import Answer, NoAnswerError
from relay_client.pool import OpenAnswer
from relay_client.retry import CallPolicy

_PURPOSE = "batch"
_PIECE_BYTES = 64 * 1024
# Characters that a form's header cannot hold, escaped as browsers do.
_ESCAPED = str.maketrans({'"': "%22", "\r": "%0D", "\n": "%0A"})


@dataclass(frozen=True, slots=True)
class FileForm:
    """A multipart form with one file for batches. Raises ValueError if the file has no name."""

    filename: str
    boundary: str = field(default_factory=lambda: secrets.token_hex(16))

    def __post_init__(self) -> None:
        if not self.filename:
            raise ValueError("a file cannot be uploaded without a filename")

    @property
    def content_type(self) -> str:
        """The value of the request's Content-Type header."""
        return f"multipart/form-data; boundary={self.boundary}"

    async def around(self, chunks: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
        """The form in non-empty pieces of at most 64 KiB; passes on what `chunks` raises."""
        yield self._head()
        async for chunk in chunks:
            view = memoryview(chunk)
            for at in range(0, len(view), _PIECE_BYTES):
                yield bytes(view[at : at + _PIECE_BYTES])
        yield f"\r\n--{self.boundary}--\r\n".encode()

    def _head(self) -> bytes:
        return (
            f'--{self.boundary}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\n{_PURPOSE}\r\n'
            f"--{self.boundary}\r\nContent-Disposition: form-data; "
            f'name="file"; filename="{self.filename.translate(_ESCAPED)}"\r\n'
            "Content-Type: application/jsonl\r\n\r\n"
        ).encode()


class SourceStalled(TimeoutError):
    """The chunks of an upload did not come in time: nothing is stored, and the cloud is not the cause."""


class AnsweredTooSoonError(Exception):
    """A 2xx came before the whole body was sent."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status)
        self.answer = answer


class Outlet(AsyncIterator[bytes]):
    """Hands the pieces of a body to the connection, one at a time."""

    def __init__(self) -> None:
        self._slot: asyncio.Queue[bytes | None] = asyncio.Queue(1)
        self.begun = False

    async def __anext__(self) -> bytes:
        self.begun = True
        piece = await self._slot.get()
        if piece is None:
            raise StopAsyncIteration
        return piece

    async def put(self, piece: bytes | None) -> None:
        """Return once there was room for the piece; None marks the end."""
        await self._slot.put(piece)

    def abandon(self, _: object = None) -> None:
        """Stop taking pieces, and release whoever waits to hand one over."""
        with contextlib.suppress(asyncio.QueueEmpty):
            self._slot.get_nowait()


async def send(
    opened: Callable[[Outlet], Coroutine[None, None, OpenAnswer]], pieces: AsyncIterator[bytes], policy: CallPolicy
) -> Answer:
    """Send a body in pieces and return the answer, even one that comes before the end of the body.

    Waits `idle_seconds` for the next piece and for room for it, and `total_seconds` for the answer to all of them.
    Raises NoAnswerError, AnsweredTooSoonError, SourceStalled, and what the pieces raise. Nothing is sent once it has
    ended.
    """
    outlet = Outlet()
    under_way = asyncio.create_task(opened(outlet))
    under_way.add_done_callback(outlet.abandon)
    try:
        is_whole = await _fed(outlet, pieces, under_way, policy.idle_seconds)
        async with _bound(policy.total_seconds, f"no complete answer within {policy.total_seconds:g} s", outlet):
            head = await under_way
        answer = await head.whole(policy.total_seconds)
    finally:
        await _given_up(under_way)
    if answer.is_success and not is_whole:
        raise AnsweredTooSoonError(answer)
    return answer


async def _fed(outlet: Outlet, pieces: AsyncIterator[bytes], under_way: asyncio.Task[OpenAnswer], idle: float) -> bool:
    """Hand over the pieces; returns False if the answer, or its failure, came before the last one."""
    while not under_way.done():
        try:
            async with _bound(idle, f"nothing to send came for {idle:g} s", outlet):
                piece = await anext(pieces, None)
        except NoAnswerError as silent:
            if under_way.done():
                return False
            raise SourceStalled(silent.reason) from None
        async with _bound(idle, f"nothing could be sent for {idle:g} s", outlet):
            await outlet.put(piece)
        if piece is None:
            return True
    return False


async def _given_up(under_way: asyncio.Task[OpenAnswer]) -> None:
    under_way.cancel()
    (head,) = await asyncio.gather(under_way, return_exceptions=True)
    if isinstance(head, OpenAnswer):
        await head.aclose()


@contextlib.asynccontextmanager
async def _bound(seconds: float, reason: str, outlet: Outlet) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds) as bound:
            yield
    except TimeoutError:
        if not bound.expired():
            raise  # raised by the source itself
        raise NoAnswerError(reason, begun=outlet.begun) from None
