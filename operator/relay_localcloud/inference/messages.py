"""The Messages family: what a request says to a built-in model, and its answer in Anthropic's shapes."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from relay_localcloud.inference.chat import text_of
from relay_localcloud.inference.engine import Finish, Prompt, Turn, pieces, words
from relay_localcloud.inference.frames import Frame, Part
from relay_wire.inference import MessagesRequest

STOP_REASONS: Final[Mapping[Finish, str]] = {
    Finish.STOP: "end_turn",
    Finish.STOP_SEQUENCE: "stop_sequence",
    Finish.LENGTH: "max_tokens",
    Finish.TOOL_CALLS: "tool_use",
}


def prompt(request: MessagesRequest) -> Prompt:
    """What a built-in model reads of the request."""
    texts = [(message, text_of(message.content)) for message in request.messages]
    said = next((text for message, text in reversed(texts) if message.role == "user"), texts[-1][1])
    return Prompt(
        said=said,
        input_tokens=words(text_of(request.system)) + sum(words(text) for _, text in texts),
        limit=request.max_tokens,
        stops=request.stop_sequences or (),
    )


def message(request: MessagesRequest, turn: Turn, identifier: str) -> dict[str, Any]:
    """The answer as one object."""
    return {
        "id": identifier,
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": [{"type": "text", "text": turn.text}],
        "stop_reason": STOP_REASONS[turn.finish],
        "stop_sequence": turn.stop_sequence,
        "usage": {"input_tokens": turn.input_tokens, "output_tokens": turn.output_tokens},
    }


def frames(request: MessagesRequest, turn: Turn, identifier: str) -> Iterator[Frame]:
    """The answer as the events of a stream, a delta a word, up to its `message_stop`."""
    begun = {
        **message(request, turn, identifier),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": turn.input_tokens, "output_tokens": 0},
    }
    block = {"type": "text", "text": ""}
    yield Frame(Part.HEAD, {"type": "message_start", "message": begun})
    yield Frame(Part.HEAD, {"type": "content_block_start", "index": 0, "content_block": block})
    yield Frame(Part.HEAD, {"type": "ping"})
    for piece in pieces(turn.text):
        delta = {"type": "text_delta", "text": piece}
        yield Frame(Part.CONTENT, {"type": "content_block_delta", "index": 0, "delta": delta})
    yield Frame(Part.TAIL, {"type": "content_block_stop", "index": 0})
    ended = {"stop_reason": STOP_REASONS[turn.finish], "stop_sequence": turn.stop_sequence}
    yield Frame(Part.TAIL, {"type": "message_delta", "delta": ended, "usage": {"output_tokens": turn.output_tokens}})
