"""Asking a model once: the common part of online requests and records of batches.

    answer = invoke_now(tx, organization_id, family, body)    # None if the model's server is over the network
    answer = await invoke(store, upstreams, organization_id, family, body, reserve)

Neither charges: `charges.charge` does, in full for an online request, half for a batch. Answers of servers over the
network are passed on under the model's public id. Tokens are those of such a server's own usage, if plausible; without
a usage, words are counted, and for a stream its pieces.
"""

import secrets
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import ExitStack, aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pydantic import JsonValue
from pydantic_core import to_json

from relay_localcloud.http.json_values import uncollected
from relay_localcloud.inference import engine, frames, routing
from relay_localcloud.inference.bodies import read
from relay_localcloud.inference.catalog import Model, find_model
from relay_localcloud.inference.charges import Usage
from relay_localcloud.inference.chat import Chat
from relay_localcloud.inference.dialects import Dialect, Json, strings, usage_in
from relay_localcloud.inference.engine import Prompt, words
from relay_localcloud.inference.errors import UPSTREAM_UNAVAILABLE, InferenceError
from relay_localcloud.inference.frames import Source
from relay_localcloud.inference.messages import Messages
from relay_localcloud.inference.routing import Turn
from relay_localcloud.inference.upstreams import Upstreams
from relay_localcloud.kernel.instants import SECOND
from relay_localcloud.kernel.store import Store, Tx
from relay_localcloud.models.backends import Server
from relay_localcloud.models.built_in import BuiltInModel
from relay_localcloud.runtimes.runtime import Containers
from relay_wire.inference import ChatRequest, Family, MessagesRequest

LONGEST_ANSWER: Final = 131_072
"""The most tokens that are charged for one choice of a server's answer (assumed); `max_tokens` may say fewer."""

Reserve = Callable[[Usage], None]
"""Called with the most that an answer can use, before a model is asked; raises InferenceError 402."""

DIALECTS: Final[Mapping[Family, Dialect[Any]]] = {Chat.family: Chat(), Messages.family: Messages()}


class Question:
    """A request to a model, in the format of a family; `via` names the servers that it came through."""

    def __init__(self, family: Family, request: ChatRequest | MessagesRequest, via: str = "") -> None:
        self.dialect = DIALECTS[family]
        self.request = request
        self.via = via
        self.prompt: Prompt = self.dialect.prompt(request)

    @classmethod
    def read(cls, family: Family, body: JsonValue) -> "Question":
        """Read a body; InferenceError 400."""
        return cls(family, read(DIALECTS[family].request, body))

    @uncollected()
    def sent(self, server: Server, *, stream: bool) -> bytes:
        """The body for a server: the request with all its fields, and with a request for usage if it streams."""
        body: Json = self.request.model_dump(mode="json", exclude_unset=True, exclude={"stream_options"})
        options = self.dialect.stream_options if stream else {}
        return to_json({**body, "model": server.ref, "stream": stream, **options})

    def bounded(self, said: Usage, asked_bytes: int, answered_bytes: int) -> Usage:
        """The usage that a server reports, within what is possible: a token has a byte, and `max_tokens` holds."""
        most = min(answered_bytes, self._longest)
        return Usage.of(min(said.input_tokens, asked_bytes), min(said.output_tokens, most))

    def most(self, asked_bytes: int) -> Usage:
        """The most that a server can have used."""
        return Usage.of(asked_bytes, self._longest)

    def partly(self, pieces: int) -> Usage:
        """The usage for a number of pieces of a stream."""
        return Usage.of(self.prompt.input_tokens, min(pieces, self._longest))

    @property
    def _longest(self) -> int:
        limit = self.prompt.limit
        return (LONGEST_ANSWER if limit is None else min(limit, LONGEST_ANSWER)) * self.prompt.choices

    def identifier(self) -> str:
        """A new id for its answer."""
        return f"{self.dialect.prefix}-{secrets.token_hex(12)}"


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's answer, and its usage at the online price; `headers` name the deployment, only to its organization."""

    body: Json
    usage: Usage
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Streaming:
    """A model's answer piece by piece; `headers` as those of `Answer`."""

    source: Source
    headers: Mapping[str, str] = field(default_factory=dict)


def invoke_now(tx: Tx, organization_id: str, family: Family, body: JsonValue) -> Answer | None:
    """Ask a built-in model, at once; None if the model's server is over the network. Raises InferenceError."""
    asked = Question.read(family, body)
    return answer_now(find_model(tx, organization_id, asked.request.model, family), asked, tx.now)


async def invoke(
    store: Store, upstreams: Upstreams, organization_id: str, family: Family, body: JsonValue, reserve: Reserve
) -> Answer:
    """Ask any model. Raises InferenceError."""
    asked = Question.read(family, body)
    with store.transaction() as tx:
        model, now = find_model(tx, organization_id, asked.request.model, family), tx.now
    return await answer(upstreams, model, asked, now, reserve)


def answer_now(model: Model, asked: Question, now: int) -> Answer | None:
    """The built-in engine's answer; None if another backend answers. Raises InferenceError."""
    return _told(model.built_in, asked, now) if model.is_local and model.built_in else None


async def answer(upstreams: Upstreams, model: Model, asked: Question, now: int, reserve: Reserve) -> Answer:
    """The model's answer, from the backend whose turn it is. Raises InferenceError."""
    behind, turn = _reached(upstreams, model, asked)
    if isinstance(behind, BuiltInModel):
        answered = _told(behind, asked, now)
        reserve(answered.usage)
    else:
        sent = asked.sent(behind, stream=False)
        reserve(asked.most(len(sent)))
        document, size = await upstreams.ask(behind, asked.dialect.family, sent, asked.via)
        used = asked.bounded(_used(asked, document), len(sent), size)
        answered = Answer({**document, "model": asked.request.model}, used)
    return replace(answered, headers=_headers(model, turn))


async def stream(
    upstreams: Upstreams, model: Model, asked: Question, now: int, reserve: Reserve, held: ExitStack
) -> Streaming:
    """The model's answer, piece by piece; `held` ends with it. Raises InferenceError, for errors before it begins."""
    behind, turn = _reached(upstreams, model, asked)
    if not isinstance(behind, BuiltInModel):
        sent = asked.sent(behind, stream=True)
        reserve(asked.most(len(sent)))
        events = await upstreams.stream(behind, asked.dialect.family, sent, asked.via)
        source = _relayed(asked, len(sent), events)
    else:
        if turn is not None:
            held.enter_context(upstreams.counting(turn.replica_id))
        source = _spoken(behind, asked, now, reserve)
    return Streaming(source, _headers(model, turn))


def _headers(model: Model, turn: Turn | None) -> Mapping[str, str]:
    return turn.headers if turn is not None and model.is_own else {}


def _used(asked: Question, document: Json) -> Usage:
    said = usage_in(document.get("usage"), asked.dialect.counts)
    return said or Usage.of(asked.prompt.input_tokens, sum(map(words, strings(asked.dialect.said(document)))))


async def _relayed(asked: Question, asked_bytes: int, events: AsyncGenerator[str, None]) -> Source:
    """A server's stream, with its plausible usage."""
    heard = 0

    async def counted() -> AsyncGenerator[str, None]:
        nonlocal heard
        async with aclosing(events):
            async for data in events:
                heard += len(data.encode())
                yield data

    async with aclosing(asked.dialect.relayed(asked.request, asked.prompt, counted())) as source:
        async for said in source:
            yield asked.bounded(said, asked_bytes, heard) if isinstance(said, Usage) else said


def _reached(upstreams: Upstreams, model: Model, asked: Question) -> tuple[BuiltInModel | Server, Turn | None]:
    """The backend that answers, and the replica's turn if it is one."""
    chosen = routing.choose(model, upstreams.under_way, upstreams.draw(), asked.prompt.size)
    if chosen is None:
        raise InferenceError(*UPSTREAM_UNAVAILABLE, f"All capacity for the model {model.id!r} is in use.")
    return (_of(chosen, upstreams.containers), chosen) if isinstance(chosen, Turn) else (chosen, None)


def _of(turn: Turn, containers: Containers | None) -> BuiltInModel | Server:
    if containers is None:
        return turn.behind
    way = containers.way(turn.deployment.organization_id, turn.replica_id, turn.deployment.port)
    if way is None:
        raise InferenceError(*UPSTREAM_UNAVAILABLE, "The replica whose turn it is does not run just now: try again.")
    return turn.at(way)


def _told(built_in: BuiltInModel, asked: Question, now: int) -> Answer:
    turn = engine.turn(built_in, asked.prompt)
    return Answer(asked.dialect.whole(asked.request, turn, asked.identifier(), now // SECOND), turn.usage)


def _spoken(built_in: BuiltInModel, asked: Question, now: int, reserve: Reserve) -> Source:
    turn = engine.turn(built_in, asked.prompt)
    reserve(turn.usage)
    return frames.told(asked.dialect.frames(asked.request, turn, asked.identifier(), now // SECOND), turn.usage)
