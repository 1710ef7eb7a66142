"""Streams as server-sent events (section 7, "Streaming"): the frames of a source, until it ends or is cut.

A source yields frames and, last, the usage. A stream that is cut ends with an error frame and `[DONE]`, and is not
billed; a complete one is billed before its last event is sent. If the client leaves, or its key is revoked or
expires, what was sent is billed (assumed): only an interruption by the cloud is free.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack, aclosing
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from relay_localcloud.http.errors import ApiError
from relay_localcloud.http.exchange import Exchange, exchange_of
from relay_localcloud.inference.charges import Usage
from relay_localcloud.inference.errors import UPSTREAM_ERROR, InferenceError, of_api_error
from relay_wire.inference import Family

if TYPE_CHECKING:
    from relay_localcloud.inference.dialects import Dialect

DONE: Final = b"data: [DONE]\n\n"
_IN_A_ROW = 64


class Part(Enum):
    """A frame's place in an answer: before its content, a piece of it, or after."""

    HEAD = auto()
    CONTENT = auto()
    TAIL = auto()


@dataclass(frozen=True, slots=True)
class Frame:
    """One event of a stream."""

    part: Part
    data: Mapping[str, Any]


Source = AsyncGenerator[Frame | Usage, None]


async def told(frames: Iterator[Frame], usage: Usage) -> Source:
    """A source of frames that are known already."""
    for number, frame in enumerate(frames, 1):
        yield frame
        if number % _IN_A_ROW == 0:
            await asyncio.sleep(0)  # others get a turn, and the server notices a client that has left
    yield usage


async def broken_after(source: Source, pieces: int) -> Source:
    """A source whose model fails after so many pieces of content."""
    async with aclosing(source):
        async for said in source:
            if isinstance(said, Frame) and said.part is not Part.HEAD and pieces == 0:
                raise InferenceError(*UPSTREAM_ERROR, "The model broke off in the middle of its answer.")
            pieces -= isinstance(said, Frame) and said.part is Part.CONTENT
            yield said


class Bill:
    """The charge for a stream: once, or never if the cloud cuts it; `partly` gives the usage for a number of pieces."""

    def __init__(self, partly: Callable[[int], Usage], charge: Callable[[Usage], None]) -> None:
        self._partly = partly
        self._charge = charge
        self._pieces = 0
        self.is_open = True

    def sent(self, frame: Frame) -> None:
        """Count a frame that is being sent."""
        self._pieces += frame.part is Part.CONTENT

    def whole(self, used: Usage) -> None:
        """Charge all of it: nothing can cut the stream any more."""
        if self.is_open:
            self.is_open = False
            self._charge(used)

    def left(self) -> None:
        """Charge what was sent until the client left."""
        if self.is_open:
            self.whole(self._partly(self._pieces))

    def cut(self) -> None:
        """Charge nothing: the cloud cuts the stream."""
        self.is_open = False


async def events(source: Source, dialect: "Dialect[Any]", bill: Bill) -> AsyncGenerator[bytes, None]:
    """The source in its wire format."""
    try:
        async for said in source:
            if isinstance(said, Usage):
                bill.whole(said)
            else:
                yield dialect.event(said.data)
                bill.sent(said)
    except ApiError as error:  # the model's server broke off, or the charge could not be written
        bill.cut()
        yield last_words(dialect.family, error)
    else:
        yield dialect.end


def last_words(family: Family, error: ApiError) -> bytes:
    """What a stream that is cut ends with."""
    name = b"event: error\n" if family is Family.MESSAGES else b""
    return name + b"data: " + json.dumps(of_api_error(error).body(family)).encode() + b"\n\n" + DONE


class EventStream(StreamingResponse):
    """An answer of events; if the client leaves, it also ends its source and charges for what was sent.

    `held` is released at the end, in every case.
    """

    def __init__(
        self, source: Source, dialect: "Dialect[Any]", headers: Mapping[str, str], bill: Bill, held: ExitStack
    ) -> None:
        super().__init__((), headers={"Cache-Control": "no-cache", **headers}, media_type="text/event-stream")
        self._source = source
        self._content = events(source, dialect, bill)
        self._bill = bill
        self._held = held
        self._last_words = partial(last_words, dialect.family)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        exchange = exchange_of(scope)
        exchange.last_words, self.body_iterator = self._last_words, self._while_admitted(exchange)
        with self._held:
            try:
                await super().__call__(scope, receive, send)
            finally:
                await self._content.aclose()
                await self._source.aclose()

    async def _while_admitted(self, exchange: Exchange) -> AsyncIterator[bytes]:
        """The content, until the caller may not read on: what was sent is charged, or revoking a key would be free."""
        async for piece in self._content:
            yield piece
            if exchange.cut_by is not None and self._bill.is_open:
                self._bill.left()
                yield self._last_words(exchange.cut_by)
                return

    async def listen_for_disconnect(self, receive: Receive) -> None:
        """Return once the client has left; note that only then, not if the server or a new state ends the stream."""
        await super().listen_for_disconnect(receive)
        self._bill.left()
