"""Asking a model once: what online requests and the records of batches have in common.

    answer = invoke_now(tx, organization_id, family, body)    # None where the model's server is over the network
    answer = await invoke(store, upstreams, organization_id, family, body)

Neither charges: `charges.charge` does, whole for an online request, half for a batch.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, assert_never

from pydantic import JsonValue

from relay_localcloud.inference import chat, engine, frames, messages, prompts, relayed, replicas, routing
from relay_localcloud.inference.bodies import read
from relay_localcloud.inference.catalog import Model, find_model
from relay_localcloud.inference.errors import UPSTREAM_UNAVAILABLE, InferenceError
from relay_localcloud.inference.frames import Source, Tokens
from relay_localcloud.inference.routing import Chosen, Turn
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
    chosen = _chosen(upstreams, model, request)
    match chosen:
        case BuiltInModel() as built_in:
            return _told(built_in, request, now)
        case Server() as server:
            return await _asked(upstreams, server, request)
        case Turn() as turn:
            behind = replicas.server_of(turn)
            if behind is None:
                answered = _told(replicas.engine_of(turn), request, now)
            else:
                answered = await _asked(upstreams, behind, request)
            return replace(answered, headers=replicas.headers_of(turn))
        case _ as never:
            assert_never(never)


@dataclass(frozen=True, slots=True)
class Streaming:
    """What a model answers piece by piece; `headers` as those of `Answer`."""

    source: Source
    headers: Mapping[str, str] = field(default_factory=dict)


async def stream(upstreams: Upstreams, model: Model, request: ModelRequest, now: int) -> Streaming:
    """What the model answers, piece by piece. Raises InferenceError, here for what is known before the first piece."""
    chosen = _chosen(upstreams, model, request)
    match chosen:
        case BuiltInModel() as built_in:
            return Streaming(_spoken(built_in, request, now))
        case Server() as server:
            return Streaming(await _streamed(upstreams, server, request))
        case Turn() as turn:
            behind = replicas.server_of(turn)
            if behind is None:
                spoken = _spoken(replicas.engine_of(turn), request, now)
                source = upstreams.counted(turn.replica_id, spoken)
            else:
                source = await _streamed(upstreams, behind, request)
            return Streaming(source, replicas.headers_of(turn))
        case _ as never:
            assert_never(never)


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


def _chosen(upstreams: Upstreams, model: Model, request: ModelRequest) -> Chosen:
    chosen = routing.choose(model, upstreams.under_way, upstreams.draw(), prompts.size_of(request))
    if chosen is None:
        raise InferenceError(*UPSTREAM_UNAVAILABLE, f"All capacity for the model {model.id!r} is in use.")
    return chosen


def _told(built_in: BuiltInModel, request: ModelRequest, now: int) -> Answer:
    match request:
        case ChatRequest():
            turn = engine.turn(built_in, chat.prompt(request))
            body = chat.completion(request, turn, _new_id("chatcmpl"), now // SECOND)
            return Answer(body, turn.input_tokens, body["usage"]["completion_tokens"])
        case MessagesRequest():
            turn = engine.turn(built_in, messages.prompt(request))
            return Answer(messages.message(request, turn, _new_id("msg")), turn.input_tokens, turn.output_tokens)


def _spoken(built_in: BuiltInModel, request: ModelRequest, now: int) -> Source:
    match request:
        case ChatRequest():
            turn = engine.turn(built_in, chat.prompt(request))
            tokens = Tokens(turn.input_tokens, turn.output_tokens * (request.n or 1))
            return frames.told(chat.frames(request, turn, _new_id("chatcmpl"), now // SECOND), tokens)
        case MessagesRequest():
            turn = engine.turn(built_in, messages.prompt(request))
            tokens = Tokens(turn.input_tokens, turn.output_tokens)
            return frames.told(messages.frames(request, turn, _new_id("msg")), tokens)


def _new_id(prefix: str) -> str:
    return f"{prefix}-{secrets.token_hex(12)}"
