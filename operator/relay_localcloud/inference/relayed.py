"""Answers of servers over the network, as the local cloud passes them on: the model's public id, and the tokens.

Tokens are what the server's own usage says; where it says nothing, words are counted, and of a stream its pieces.
"""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

from pydantic import JsonValue

from relay_localcloud.inference import chat
from relay_localcloud.inference.engine import words
from relay_localcloud.inference.frames import Frame, Part, Source, Tokens
from relay_localcloud.inference.prompts import prompt_of
from relay_localcloud.inference.upstreams import Json, cut, parsed_event
from relay_wire.inference import ChatRequest, MessagesRequest

_MOST_TOKENS = 2**40


def sent_body(request: ChatRequest | MessagesRequest, *, stream: bool) -> Json:
    """What the server is asked: the request with all its fields, and its usage where it streams."""
    body: Json = request.model_dump(mode="json", exclude_unset=True)
    body["stream"] = stream
    body.pop("stream_options", None)
    if stream and isinstance(request, ChatRequest):
        body["stream_options"] = {"include_usage": True}
    return body


def whole(request: ChatRequest | MessagesRequest, document: Json) -> tuple[dict[str, Any], Tokens]:
    """The answer as one object, and its tokens."""
    tokens = _tokens(document.get("usage"), request)
    if tokens is None:
        said = document.get("content") if isinstance(request, MessagesRequest) else _said(document, "message")
        tokens = Tokens(prompt_of(request).input_tokens, sum(words(text) for text in _strings(said)))
    return {**document, "model": request.model}, tokens


async def chat_frames(request: ChatRequest, events: AsyncGenerator[str, None]) -> Source:
    """A chat's stream; InferenceError where it ends without `[DONE]`."""
    tokens, spoken = None, 0
    async with aclosing(events):
        async for data in events:
            if data == "[DONE]":
                yield tokens or Tokens(prompt_of(request).input_tokens, spoken)
                return
            chunk = {**parsed_event(data), "model": request.model}
            tokens = _tokens(chunk.get("usage"), request) or tokens
            part = _part_of_chunk(chunk)
            spoken += part is Part.CONTENT
            if not chat.wants_usage(request):
                usage = chunk.pop("usage", None)
                if usage is not None and not chunk.get("choices"):
                    continue
            yield Frame(part, chunk)
    raise cut()


async def message_frames(request: MessagesRequest, events: AsyncGenerator[str, None]) -> Source:
    """A message's stream up to its `message_stop`; InferenceError where it ends without."""
    asked, spoken = prompt_of(request).input_tokens, 0
    async with aclosing(events):
        async for data in events:
            event = parsed_event(data)
            match event.get("type"):
                case "message_stop":
                    yield Tokens(asked, spoken)
                    return
                case "message_start":
                    begun = event.get("message")
                    begun = {**begun, "model": request.model} if isinstance(begun, dict) else {}
                    asked = _count(begun.get("usage"), "input_tokens", asked)
                    yield Frame(Part.HEAD, {**event, "message": begun})
                case "content_block_delta":
                    spoken += 1
                    yield Frame(Part.CONTENT, event)
                case "message_delta":
                    spoken = _count(event.get("usage"), "output_tokens", spoken)
                    yield Frame(Part.TAIL, event)
                case str():
                    yield Frame(Part.HEAD, event)
                case _:
                    raise cut()
    raise cut()


def _tokens(usage: JsonValue, request: ChatRequest | MessagesRequest) -> Tokens | None:
    names = ("prompt_tokens", "completion_tokens")
    if isinstance(request, MessagesRequest):
        names = ("input_tokens", "output_tokens")
    counts = [_count(usage, name, -1) for name in names]
    return None if min(counts) < 0 else Tokens(*counts)


def _count(usage: JsonValue, name: str, otherwise: int) -> int:
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if isinstance(value, int) and 0 <= value < _MOST_TOKENS else otherwise


def _part_of_chunk(chunk: Json) -> Part:
    if any(_strings(_said(chunk, "delta"))):
        return Part.CONTENT
    choices = chunk.get("choices")
    begins = isinstance(choices, list) and any(
        isinstance(choice, dict) and choice.get("finish_reason") is None for choice in choices
    )
    return Part.HEAD if begins else Part.TAIL


def _said(document: Json, field: str) -> list[JsonValue]:
    choices = document.get("choices")
    spoken = [choice.get(field) for choice in choices if isinstance(choice, dict)] if isinstance(choices, list) else []
    return [each for said in spoken if isinstance(said, dict) for each in (said.get("content"), said.get("tool_calls"))]


def _strings(value: JsonValue) -> Iterator[str]:
    """Every text in what a model said: plain content, text parts, and the arguments of calls."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for name in ("text", "function", "arguments", "input"):
            yield from _strings(value.get(name))
