"""The chat completions family: what a request says to a built-in model, and its answer in OpenAI's shapes."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from relay_localcloud.inference.engine import Finish, Prompt, Turn, pieces, words
from relay_localcloud.inference.frames import Frame, Part
from relay_wire.inference import ChatRequest, Content

FINISH_REASONS: Final[Mapping[Finish, str]] = {
    Finish.STOP: "stop",
    Finish.STOP_SEQUENCE: "stop",
    Finish.LENGTH: "length",
    Finish.TOOL_CALLS: "tool_calls",
}


def text_of(content: Content | None) -> str:
    """The text of a message's content; its parts are lines."""
    if isinstance(content, str):
        return content
    texts = (part.text if part.text is not None else text_of(part.content) for part in content or ())
    return "\n".join(text for text in texts if text)


def prompt(request: ChatRequest) -> Prompt:
    """What a built-in model reads of the request."""
    texts = [(message, text_of(message.content)) for message in request.messages]
    said = next((text for message, text in reversed(texts) if message.role == "user"), texts[-1][1])
    stops = [request.stop] if isinstance(request.stop, str) else request.stop or ()
    limits = [limit for limit in (request.max_tokens, request.max_completion_tokens) if limit is not None]
    return Prompt(
        said=said,
        input_tokens=sum(words(text) for _, text in texts),
        limit=min(limits, default=None),
        stops=stops,
        offered_tool=_offered(request),
        turns_with_calls=sum(bool(message.tool_calls) for message in request.messages),
        tool_results=[text for message, text in texts if message.role == "tool"],
    )


def completion(request: ChatRequest, turn: Turn, identifier: str, created: int) -> dict[str, Any]:
    """The answer as one object."""
    choices = [
        {
            "index": index,
            "message": _message(turn, _call_id(identifier, index)),
            "logprobs": None,
            "finish_reason": FINISH_REASONS[turn.finish],
        }
        for index in range(request.n or 1)
    ]
    return {
        "id": identifier,
        "object": "chat.completion",
        "created": created,
        "model": request.model,
        "choices": choices,
        "usage": usage(turn.input_tokens, turn.output_tokens * len(choices)),
    }


def frames(request: ChatRequest, turn: Turn, identifier: str, created: int) -> Iterator[Frame]:
    """The answer as the chunks of a stream, one a word; the usage last where it was asked for."""
    asked = wants_usage(request)
    base = {"id": identifier, "object": "chat.completion.chunk", "created": created, "model": request.model}
    # Where usage is asked for, every chunk but the last says that it has none.
    rest: dict[str, Any] = {"usage": None} if asked else {}
    for index in range(request.n or 1):
        for part, delta in _deltas(turn, _call_id(identifier, index)):
            yield Frame(part, {**base, **_choice(index, delta, None), **rest})
        yield Frame(Part.TAIL, {**base, **_choice(index, {}, FINISH_REASONS[turn.finish]), **rest})
    if asked:
        whole = usage(turn.input_tokens, turn.output_tokens * (request.n or 1))
        yield Frame(Part.TAIL, {**base, "choices": [], "usage": whole})


def wants_usage(request: ChatRequest) -> bool:
    """Whether a stream ends with its usage."""
    return request.stream_options is not None and bool(request.stream_options.include_usage)


def usage(input_tokens: int, output_tokens: int) -> dict[str, int]:
    """Tokens as OpenAI counts them."""
    return {
        "prompt_tokens": input_tokens,
        "completion_tokens": output_tokens,
        "total_tokens": input_tokens + output_tokens,
    }


def _offered(request: ChatRequest) -> str | None:
    if request.tool_choice == "none":
        return None
    return next((tool.function.name for tool in request.tools or () if tool.function is not None), None)


def _call_id(identifier: str, index: int) -> str:
    return f"call-{identifier.rpartition('-')[2]}-{index}"


def _message(turn: Turn, call_id: str) -> dict[str, Any]:
    if turn.called_tool is None:
        return {"role": "assistant", "content": turn.text, "refusal": None}
    call = {"id": call_id, "type": "function", "function": {"name": turn.called_tool, "arguments": turn.text}}
    return {"role": "assistant", "content": None, "refusal": None, "tool_calls": [call]}


def _deltas(turn: Turn, call_id: str) -> Iterator[tuple[Part, dict[str, Any]]]:
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


def _choice(index: int, delta: dict[str, Any], finish_reason: str | None) -> dict[str, Any]:
    return {"choices": [{"index": index, "delta": delta, "logprobs": None, "finish_reason": finish_reason}]}
