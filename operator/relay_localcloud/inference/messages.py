"""The Messages family: a request as a built-in model's prompt, and answers in Anthropic's format."""

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from typing import Any, ClassVar, Final

from pydantic import JsonValue

from relay_localcloud.inference.charges import Usage
from relay_localcloud.inference.dialects import Json, count_in, data_event, text_of
from relay_localcloud.inference.engine import Finish, Prompt, Turn, pieces
from relay_localcloud.inference.frames import Frame, Part, Source
from relay_localcloud.inference.upstreams import cut, parsed_event
from relay_wire.inference import Family, MessagesRequest

STOP_REASONS: Final[Mapping[Finish, str]] = {
    Finish.STOP: "end_turn",
    Finish.STOP_SEQUENCE: "stop_sequence",
    Finish.LENGTH: "max_tokens",
    Finish.TOOL_CALLS: "tool_use",
}


class Messages:
    """`POST /v1/messages`."""

    family: ClassVar = Family.MESSAGES
    request = MessagesRequest
    prefix: ClassVar = "msg"
    counts: ClassVar = ("input_tokens", "output_tokens")
    stream_options: ClassVar[Json] = {}
    end: ClassVar = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'

    def prompt(self, request: MessagesRequest) -> Prompt:
        """What a built-in model reads from the request."""
        texts = [(message, text_of(message.content)) for message in request.messages]
        return Prompt(
            said=next((text for message, text in reversed(texts) if message.role == "user"), texts[-1][1]),
            texts=[text_of(request.system), *(text for _, text in texts)],
            limit=request.max_tokens,
            stops=request.stop_sequences or (),
        )

    def whole(self, request: MessagesRequest, turn: Turn, identifier: str, created: int) -> Json:
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

    def frames(self, request: MessagesRequest, turn: Turn, identifier: str, created: int) -> Iterator[Frame]:
        """The answer as the events of a stream, one delta per word, up to its `message_stop`."""
        begun = {
            **self.whole(request, turn, identifier, created),
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
        used = {"output_tokens": turn.output_tokens}
        yield Frame(Part.TAIL, {"type": "message_delta", "delta": ended, "usage": used})

    async def relayed(self, request: MessagesRequest, prompt: Prompt, events: AsyncGenerator[str, None]) -> Source:
        """A server's stream up to its `message_stop`; InferenceError if it ends without one."""
        asked, spoken = prompt.input_tokens, 0
        async with aclosing(events):
            async for data in events:
                event = parsed_event(data)
                match event.get("type"):
                    case "message_stop":
                        yield Usage.of(asked, spoken)
                        return
                    case "message_start":
                        begun = event.get("message")
                        begun = {**begun, "model": request.model} if isinstance(begun, dict) else {}
                        asked = count_in(begun.get("usage"), "input_tokens", asked)
                        yield Frame(Part.HEAD, {**event, "message": begun})
                    case "content_block_delta":
                        spoken += 1
                        yield Frame(Part.CONTENT, event)
                    case "message_delta":
                        spoken = count_in(event.get("usage"), "output_tokens", spoken)
                        yield Frame(Part.TAIL, event)
                    case str():
                        yield Frame(Part.HEAD, event)
                    case _:
                        raise cut()
        raise cut()

    def said(self, document: Json) -> JsonValue:
        """The content of the answer."""
        content: JsonValue = document.get("content")
        return content

    def event(self, data: Mapping[str, Any]) -> bytes:
        """An event with its type."""
        return b"event: " + str(data["type"]).encode() + b"\n" + data_event(data)
