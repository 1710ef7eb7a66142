"""Streams as server-sent events (section 7, "Streaming"): what a source says, until it ends or is cut.

A source yields frames and, last, what they took. A stream that is cut ends with an error frame and `[DONE]`,
and is not billed; one that is whole is billed before its last event is sent.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing
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


async def events(
    source: Source, dialect: "Dialect[Any]", whole: Callable[[Usage], None]
) -> AsyncGenerator[bytes, None]:
    """The source as bytes on the wire; `whole` is called with what it took once nothing can cut it any more."""
    try:
        async for said in source:
            if isinstance(said, Usage):
                whole(said)
            else:
                yield dialect.event(said.data)
    except InferenceError as error:
        name = b"event: error\n" if dialect.family is Family.MESSAGES else b""
        yield name + b"data: " + json.dumps(error.body(dialect.family)).encode() + b"\n\n" + DONE
    else:
        yield dialect.end


class EventStream(StreamingResponse):
    """An answer of events, which ends its source also where the client goes away."""

    def __init__(self, source: Source, content: AsyncGenerator[bytes, None], headers: Mapping[str, str]) -> None:
        super().__init__(content, headers={"Cache-Control": "no-cache", **headers}, media_type="text/event-stream")
        self._source = source
        self._content = content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._content.aclose()
            await self._source.aclose()
