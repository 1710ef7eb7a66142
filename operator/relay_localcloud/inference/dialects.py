"""The interface of the API families: reads a request, and writes a model's answer, each in its own format."""

import json
from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import Any, ClassVar, Protocol, TypeVar

from pydantic import JsonValue

from relay_localcloud.inference.charges import Usage
from relay_localcloud.inference.engine import Prompt, Turn
from relay_localcloud.inference.frames import Frame, Source
from relay_wire.inference import Asked, Content, Family

Json = dict[str, Any]

_RequestT = TypeVar("_RequestT", bound=Asked)
_MOST_TOKENS = 2**40


class Dialect(Protocol[_RequestT]):
    """One family; `chat.py` and `messages.py` implement the two."""

    family: ClassVar[Family]
    request: type[_RequestT]
    prefix: ClassVar[str]
    """The prefix of the ids of its answers."""
    counts: ClassVar[tuple[str, str]]
    """The names of token counts in its usage, input and output."""
    stream_options: ClassVar[Json]
    """Sent to a server so that its stream ends with its usage."""
    end: ClassVar[bytes]
    """The last bytes of a complete stream."""

    def prompt(self, request: _RequestT) -> Prompt:
        """What a built-in model reads from the request."""

    def whole(self, request: _RequestT, turn: Turn, identifier: str, created: int) -> Json:
        """A built-in model's answer as one object; `created` in seconds."""

    def frames(self, request: _RequestT, turn: Turn, identifier: str, created: int) -> Iterator[Frame]:
        """The same as the events of a stream, one per word."""

    def relayed(self, request: _RequestT, prompt: Prompt, events: AsyncGenerator[str, None]) -> Source:
        """A server's stream under the model's public id; InferenceError if it breaks off."""

    def said(self, document: Json) -> JsonValue:
        """What the model said in a server's answer."""

    def event(self, data: Mapping[str, Any]) -> bytes:
        """A frame in its wire format."""


def text_of(content: Content | None) -> str:
    """The text of a message's content; its parts are lines."""
    if isinstance(content, str):
        return content
    texts = (part.text if part.text is not None else text_of(part.content) for part in content or ())
    return "\n".join(text for text in texts if text)


def data_event(data: Mapping[str, Any]) -> bytes:
    """The data of a server-sent event."""
    return b"data: " + json.dumps(data, separators=(",", ":")).encode() + b"\n\n"


def usage_in(usage: JsonValue, names: tuple[str, str]) -> Usage | None:
    """The tokens that a server reports; None if it reports none."""
    counts = [count_in(usage, name, -1) for name in names]
    return None if min(counts) < 0 else Usage.of(*counts)


def count_in(usage: JsonValue, name: str, otherwise: int) -> int:
    """One count of a server's usage, else `otherwise`."""
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if isinstance(value, int) and 0 <= value < _MOST_TOKENS else otherwise


def strings(value: JsonValue) -> Iterator[str]:
    """Every text in what a model said: plain content, text parts, and the arguments of calls."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)
    elif isinstance(value, dict):
        for name in ("text", "function", "arguments", "input"):
            yield from strings(value.get(name))
