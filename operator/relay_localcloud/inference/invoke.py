"""Asking a model once: what online requests and the records of batches have in common.

    answer = invoke_now(tx, organization_id, family, body)    # None where the model's server is over the network
    answer = await invoke(store, upstreams, organization_id, family, body)

Neither charges: `charges.charge` does, whole for an online request, half for a batch.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pydantic import JsonValue

from relay_localcloud.inference import chat, engine, frames, messages, prompts, relayed, replicas, routing
from relay_localcloud.inference.bodies import read
from relay_localcloud.inference.catalog import Model, find_model
from relay_localcloud.inference.errors import UPSTREAM_UNAVAILABLE, InferenceError
from relay_localcloud.inference.frames import Source, Tokens
from relay_localcloud.inference.routing import Turn
from relay_localcloud.inference.upstreams import Upstreams
from relay_localcloud.inference.usage import Usage
from relay_localcloud.kernel.instants import SECOND
from relay_localcloud.kernel.store import Store, Tx
from relay_localcloud.models.backends import Server
from relay_localcloud.models.built_in import NANO_USD_PER_TOKEN, BuiltInModel
from relay_wire.inference import ChatRequest, Family, MessagesRequest

ModelRequest = ChatRequest | MessagesRequest

_REQUESTS: Final[Mapping[Family, type[ChatRequest] | type[MessagesRequest]]] = {
    Family.CHAT_COMPLETIONS: ChatRequest,
    Family.MESSAGES: MessagesRequest,
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model answered, its tokens, and what they cost online; `headers` name the deployment that answered."""

    body: dict[str, Any]
    input_tokens: int
    output_tokens: int
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def cost_nano_usd(self) -> int:
        """The price of the tokens, in and out."""
        return price(Tokens(self.input_tokens, self.output_tokens))

    @property
    def usage(self) -> Usage:
        """One request, its tokens and their price."""
        return usage_of(Tokens(self.input_tokens, self.output_tokens))


def usage_of(tokens: Tokens) -> Usage:
    """One online request that took these tokens."""
    return Usage(1, tokens.input, tokens.output, price(tokens))


def price(tokens: Tokens) -> int:
    """What tokens cost online, in nano-USD."""
    return (tokens.input + tokens.output) * NANO_USD_PER_TOKEN


def invoke_now(tx: Tx, organization_id: str, family: Family, body: JsonValue) -> Answer | None:
    """Ask a built-in model, at once; None where the model's server is over the network. Raises InferenceError."""
    request = read(_REQUESTS[family], body)
    model = find_model(tx, organization_id, request.model, family)
    return answer_now(model, request, tx.now)


async def invoke(store: Store, upstreams: Upstreams, organization_id: str, family: Family, body: JsonValue) -> Answer:
    """Ask any model. Raises InferenceError."""
    request = read(_REQUESTS[family], body)
    with store.transaction() as tx:
        model, now = find_model(tx, organization_id, request.model, family), tx.now
    return await answer(upstreams, model, request, now)


def answer_now(model: Model, request: ModelRequest, now: int) -> Answer | None:
    """What the built-in engine answers; None where it is not what answers. Raises InferenceError."""
    return _told(model.built_in, request, now) if model.is_local and model.built_in else None


async def answer(upstreams: Upstreams, model: Model, request: ModelRequest, now: int) -> Answer:
    """What the model answers, by the one whose turn it is. Raises InferenceError."""
    behind, turn = _reached(upstreams, model, request)
    if isinstance(behind, BuiltInModel):
        answered = _told(behind, request, now)
    else:
        answered = await _asked(upstreams, behind, request)
    return answered if turn is None else replace(answered, headers=replicas.headers_of(turn))


@dataclass(frozen=True, slots=True)
class Streaming:
    """What a model answers piece by piece; `headers` as those of `Answer`."""

    source: Source
    headers: Mapping[str, str] = field(default_factory=dict)


async def stream(upstreams: Upstreams, model: Model, request: ModelRequest, now: int) -> Streaming:
    """What the model answers, piece by piece. Raises InferenceError, here for what is known before the first piece."""
    behind, turn = _reached(upstreams, model, request)
    if not isinstance(behind, BuiltInModel):
        source = await _streamed(upstreams, behind, request)
    elif turn is None:
        source = _spoken(behind, request, now)
    else:
        source = upstreams.counted(turn.replica_id, _spoken(behind, request, now))
    return Streaming(source, {} if turn is None else replicas.headers_of(turn))


async def _asked(upstreams: Upstreams, server: Server, request: ModelRequest) -> Answer:
    document = await upstreams.ask(server, _family(request), relayed.sent_body(request, stream=False))
    body, tokens = relayed.whole(request, document)
    return Answer(body, tokens.input, tokens.output)


async def _streamed(upstreams: Upstreams, server: Server, request: ModelRequest) -> Source:
    events = await upstreams.stream(server, _family(request), relayed.sent_body(request, stream=True))
    if isinstance(request, ChatRequest):
        return relayed.chat_frames(request, events)
    return relayed.message_frames(request, events)


def _family(request: ModelRequest) -> Family:
    return Family.CHAT_COMPLETIONS if isinstance(request, ChatRequest) else Family.MESSAGES


def _reached(upstreams: Upstreams, model: Model, request: ModelRequest) -> tuple[BuiltInModel | Server, Turn | None]:
    """What answers, and whose turn it is where that is a replica."""
    chosen = routing.choose(model, upstreams.under_way, upstreams.draw(), prompts.size_of(request))
    if chosen is None:
        raise InferenceError(*UPSTREAM_UNAVAILABLE, f"All capacity for the model {model.id!r} is in use.")
    return (replicas.behind(chosen), chosen) if isinstance(chosen, Turn) else (chosen, None)


def _told(built_in: BuiltInModel, request: ModelRequest, now: int) -> Answer:
    turn = engine.turn(built_in, prompts.prompt_of(request))
    if isinstance(request, ChatRequest):
        body = chat.completion(request, turn, _new_id("chatcmpl"), now // SECOND)
        return Answer(body, turn.input_tokens, body["usage"]["completion_tokens"])
    return Answer(messages.message(request, turn, _new_id("msg")), turn.input_tokens, turn.output_tokens)


def _spoken(built_in: BuiltInModel, request: ModelRequest, now: int) -> Source:
    turn = engine.turn(built_in, prompts.prompt_of(request))
    if isinstance(request, ChatRequest):
        tokens = Tokens(turn.input_tokens, turn.output_tokens * (request.n or 1))
        return frames.told(chat.frames(request, turn, _new_id("chatcmpl"), now // SECOND), tokens)
    tokens = Tokens(turn.input_tokens, turn.output_tokens)
    return frames.told(messages.frames(request, turn, _new_id("msg")), tokens)


def _new_id(prefix: str) -> str:
    return f"{prefix}-{secrets.token_hex(12)}"
