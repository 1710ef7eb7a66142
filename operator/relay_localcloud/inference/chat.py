"""The chat completions family: a request as a built-in model's prompt, and answers in OpenAI's format."""

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from typing import Any, ClassVar, Final

from pydantic import JsonValue

from relay_localcloud.inference.charges import Usage
from relay_localcloud.inference.dialects import Json, data_event, strings, text_of, usage_in
from relay_localcloud.inference.engine import Finish, Prompt, Turn, pieces
from relay_localcloud.inference.frames import DONE, Frame, Part, Source
from relay_localcloud.inference.upstreams import cut, parsed_event
from relay_wire.inference import ChatRequest, Family, FunctionChoice

FINISH_REASONS: Final[Mapping[Finish, str]] = {
    Finish.STOP: "stop",
    Finish.STOP_SEQUENCE: "stop",
    Finish.LENGTH: "length",
    Finish.TOOL_CALLS: "tool_calls",
}


class Chat:
    """`POST /v1/chat/completions`."""

    family: ClassVar = Family.CHAT_COMPLETIONS
    request = ChatRequest
    prefix: ClassVar = "chatcmpl"
    counts: ClassVar = ("prompt_tokens", "completion_tokens")
    stream_options: ClassVar[Json] = {"stream_options": {"include_usage": True}}
    end: ClassVar = DONE

    def prompt(self, request: ChatRequest) -> Prompt:
        """What a built-in model reads from the request."""
        texts = [(message, text_of(message.content)) for message in request.messages]
        limits = [limit for limit in (request.max_tokens, request.max_completion_tokens) if limit is not None]
        return Prompt(
            said=next((text for message, text in reversed(texts) if message.role == "user"), texts[-1][1]),
            texts=[text for _, text in texts],
            limit=min(limits, default=None),
            choices=request.n or 1,
            stops=[request.stop] if isinstance(request.stop, str) else request.stop or (),
            offered_tool=_offered(request),
            turns_with_calls=sum(bool(message.tool_calls) for message in request.messages),
            tool_results=[text for message, text in texts if message.role == "tool"],
            form=request.response_format,
        )

    def whole(self, request: ChatRequest, turn: Turn, identifier: str, created: int) -> Json:
        """The answer as one object."""
        choices = [
            {
                "index": index,
                "message": _message(turn, _call_id(identifier, index)),
                "logprobs": None,
                "finish_reason": FINISH_REASONS[turn.finish],
            }
            for index in range(turn.choices)
        ]
        base = {"id": identifier, "object": "chat.completion", "created": created, "model": request.model}
        return {**base, "choices": choices, "usage": _usage(turn)}

    def frames(self, request: ChatRequest, turn: Turn, identifier: str, created: int) -> Iterator[Frame]:
        """The answer as the chunks of a stream, one per word; the usage last if it was requested."""
        asked = _wants_usage(request)
        base = {"id": identifier, "object": "chat.completion.chunk", "created": created, "model": request.model}
        # If usage is requested, every chunk but the last has null usage.
        rest: Json = {"usage": None} if asked else {}
        for index in range(turn.choices):
            for part, delta in _deltas(turn, _call_id(identifier, index)):
                yield Frame(part, {**base, **_choice(index, delta, None), **rest})
            yield Frame(Part.TAIL, {**base, **_choice(index, {}, FINISH_REASONS[turn.finish]), **rest})
        if asked:
            yield Frame(Part.TAIL, {**base, "choices": [], "usage": _usage(turn)})

    async def relayed(self, request: ChatRequest, prompt: Prompt, events: AsyncGenerator[str, None]) -> Source:
        """A server's stream; InferenceError if it ends without `[DONE]`."""
        used, spoken, base = None, 0, Json()
        async with aclosing(events):
            async for data in events:
                if data == "[DONE]":
                    if used is None:
                        used = Usage.of(prompt.input_tokens, spoken)
                        if _wants_usage(request):  # not every server follows `stream_options`
                            yield Frame(Part.TAIL, {**base, "choices": [], "usage": _usage(used)})
                    yield used
                    return
                chunk = {**parsed_event(data), "model": request.model}
                base = {name: chunk[name] for name in ("id", "object", "created", "model") if name in chunk}
                used = usage_in(chunk.get("usage"), self.counts) or used
                part = _part_of_chunk(chunk)
                spoken += part is Part.CONTENT
                if not _wants_usage(request):
                    usage = chunk.pop("usage", None)
                    if usage is not None and not chunk.get("choices"):
                        continue
                yield Frame(part, chunk)
        raise cut()

    def said(self, document: Json) -> JsonValue:
        """The contents and the tool calls of every choice."""
        return _said(document, "message")

    def event(self, data: Mapping[str, Any]) -> bytes:
        """A chunk."""
        return data_event(data)


def _wants_usage(request: ChatRequest) -> bool:
    """Whether a stream ends with its usage."""
    return request.stream_options is not None and bool(request.stream_options.include_usage)


def _usage(used: Turn | Usage) -> dict[str, int]:
    taken, given = used.input_tokens, used.output_tokens
    return {"prompt_tokens": taken, "completion_tokens": given, "total_tokens": taken + given}


def _offered(request: ChatRequest) -> str | None:
    """The function that a model would call: the one that the request chooses, else the first; None without any."""
    names = [tool.function.name for tool in request.tools or () if tool.function is not None]
    match request.tool_choice:
        case "none":
            return None
        case FunctionChoice(function=chosen):
            return chosen.name
        case _:
            return next(iter(names), None)


def _call_id(identifier: str, index: int) -> str:
    return f"call-{identifier.rpartition('-')[2]}-{index}"


def _message(turn: Turn, call_id: str) -> Json:
    if turn.called_tool is None:
        return {"role": "assistant", "content": turn.text, "refusal": None}
    call = {"id": call_id, "type": "function", "function": {"name": turn.called_tool, "arguments": turn.text}}
    return {"role": "assistant", "content": None, "refusal": None, "tool_calls": [call]}


def _deltas(turn: Turn, call_id: str) -> Iterator[tuple[Part, Json]]:
    if turn.called_tool is None:
        yield Part.HEAD, {"role": "assistant", "content": "", "refusal": None}
        for piece in pieces(turn.text):
            yield Part.CONTENT, {"content": piece}
        return
    yield Part.HEAD, {"role": "assistant", "content": None, "refusal": None}
    opened = {"id": call_id, "type": "function", "function": {"name": turn.called_tool, "arguments": ""}}
    yield Part.HEAD, {"tool_calls": [{"index": 0, **opened}]}
    for piece in pieces(turn.text):
        yield Part.CONTENT, {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}


def _choice(index: int, delta: Json, finish_reason: str | None) -> Json:
    return {"choices": [{"index": index, "delta": delta, "logprobs": None, "finish_reason": finish_reason}]}


def _part_of_chunk(chunk: Json) -> Part:
    if any(strings(_said(chunk, "delta"))):
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
