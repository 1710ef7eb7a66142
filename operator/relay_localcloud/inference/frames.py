"""Streams as server-sent events (section 7, "Streaming"): what a source says, until it ends or is cut.

A source yields frames and, last, what they took. A stream that is cut ends with an error frame and `[DONE]`,
and is not billed; one that is whole is billed before its last event is sent. Of one that its client leaves, what was
sent is billed (assumed): an interruption is ours.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import ExitStack, aclosing
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from relay_localcloud.inference.charges import Usage
from relay_localcloud.inference.errors import UPSTREAM_ERROR, InferenceError
from relay_wire.inference import Family

if TYPE_CHECKING:
    from relay_localcloud.inference.dialects import Dialect

DONE: Final = b"data: [DONE]\n\n"
_IN_A_ROW = 64


class Part(Enum):
    """Where in an answer a frame stands: before its content, a piece of it, or after."""

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
    """A source whose frames are there already."""
    for number, frame in enumerate(frames, 1):
        yield frame
        if number % _IN_A_ROW == 0:
            await asyncio.sleep(0)  # others get a turn, and a client that went away is noticed
    yield usage


async def broken_after(source: Source, pieces: int) -> Source:
    """A source whose model breaks after so many pieces of content."""
    async with aclosing(source):
        async for said in source:
            if isinstance(said, Frame) and said.part is not Part.HEAD and pieces == 0:
                raise InferenceError(*UPSTREAM_ERROR, "The model broke off in the middle of its answer.")
            pieces -= isinstance(said, Frame) and said.part is Part.CONTENT
            yield said


class Bill:
    """What is charged for a stream: once, or never where we cut it; `partly` says what a number of pieces took."""

    def __init__(self, partly: Callable[[int], Usage], charge: Callable[[Usage], None]) -> None:
        self._partly = partly
        self._charge = charge
        self._pieces = 0
        self._open = True

    def sent(self, frame: Frame) -> None:
        """Count a frame that is on its way."""
        self._pieces += frame.part is Part.CONTENT

    def whole(self, used: Usage) -> None:
        """Charge all of it: nothing can cut it any more."""
        if self._open:
            self._open = False
            self._charge(used)

    def left(self) -> None:
        """Charge what was sent until its client went away."""
        if self._open:
            self.whole(self._partly(self._pieces))

    def cut(self) -> None:
        """Charge nothing: the cut is ours."""
        self._open = False


async def events(source: Source, dialect: "Dialect[Any]", bill: Bill) -> AsyncGenerator[bytes, None]:
    """The source as bytes on the wire."""
    try:
        async for said in source:
            if isinstance(said, Usage):
                bill.whole(said)
            else:
                yield dialect.event(said.data)
                bill.sent(said)
    except InferenceError as error:
        bill.cut()
        name = b"event: error\n" if dialect.family is Family.MESSAGES else b""
        yield name + b"data: " + json.dumps(error.body(dialect.family)).encode() + b"\n\n" + DONE
    else:
        yield dialect.end


class EventStream(StreamingResponse):
    """An answer of events, which ends its source also where the client goes away, and charges for it then.

    `held` is let go in the end, however it comes.
    """

    def __init__(
        self, source: Source, dialect: "Dialect[Any]", headers: Mapping[str, str], bill: Bill, held: ExitStack
    ) -> None:
        content = events(source, dialect, bill)
        super().__init__(content, headers={"Cache-Control": "no-cache", **headers}, media_type="text/event-stream")
        self._source = source
        self._content = content
        self._bill = bill
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        with self._held:
            try:
                await super().__call__(scope, receive, send)
            finally:
                await self._content.aclose()
                await self._source.aclose()

    async def listen_for_disconnect(self, receive: Receive) -> None:
        """Return once the client is gone; only then is it said, not where the server or the state ends the stream."""
        await super().listen_for_disconnect(receive)
        self._bill.left()
