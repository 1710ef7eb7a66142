"""Chat completions, messages and models (section 4, "Inference API")."""

import asyncio
from collections.abc import Coroutine, Mapping
from contextlib import ExitStack
from typing import Any, Final, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from relay_localcloud.cloud import Cloud, CurrentCloud
from relay_localcloud.http.bodies import answer
from relay_localcloud.http.exchange import exchange_of
from relay_localcloud.http.openapi import ASSUMED
from relay_localcloud.http.principal import ResourceId
from relay_localcloud.http.routing import Router
from relay_localcloud.inference import frames, invoke
from relay_localcloud.inference.bodies import AskedBody
from relay_localcloud.inference.callers import InferenceCaller, PayingCaller
from relay_localcloud.inference.catalog import find_model, listed
from relay_localcloud.inference.charges import Usage, charge
from relay_localcloud.inference.errors import MODEL_NOT_FOUND, InferenceError
from relay_localcloud.inference.frames import Bill, EventStream
from relay_localcloud.inference.funds import Hold
from relay_localcloud.inference.invoke import Question, Streaming
from relay_localcloud.kernel.store import Tx
from relay_wire.inference import (
    ChatCompletion,
    ChatRequest,
    Family,
    MessageAnswer,
    MessagesRequest,
    Model,
    ModelList,
)

router = Router("Inference")

_Answer = TypeVar("_Answer")

_EVENT: Final = {
    "type": "object",
    "properties": {"event": {"type": "string"}, "data": {"type": "string"}},
    "required": ["data"],
    "description": "One of the stream's events.",
}
_OR_A_STREAM: Final[Mapping[int, Mapping[str, Any]]] = {200: {"content": {"text/event-stream": {"schema": _EVENT}}}}


@router.post(Family.CHAT_COMPLETIONS, response_model=ChatCompletion, responses=_OR_A_STREAM, summary="Complete a chat")
async def complete_chat(
    caller: PayingCaller,
    body: AskedBody[ChatRequest],
    cloud: CurrentCloud,
    request: Request,
) -> Response:
    """Answers one object; with `stream: true` server-sent events that end with `data: [DONE]`."""
    return await _answered(cloud, caller.organization_id, Family.CHAT_COMPLETIONS, body, request)


@router.post(
    Family.MESSAGES,
    response_model=MessageAnswer,
    responses=_OR_A_STREAM,
    summary="Answer messages",
    openapi_extra=ASSUMED,
)
async def answer_messages(
    caller: PayingCaller,
    body: AskedBody[MessagesRequest],
    cloud: CurrentCloud,
    request: Request,
) -> Response:
    """Answers one object; with `stream: true` server-sent events from `message_start` to `message_stop`."""
    return await _answered(cloud, caller.organization_id, Family.MESSAGES, body, request)


@router.get("/v1/models", response_model=ModelList, summary="List models")
def list_models(caller: InferenceCaller, tx: Tx) -> dict[str, object]:
    """Answers all of them, the built-in ones first."""
    models = listed(tx, caller.organization_id)
    ends = {"first_id": models[0]["id"], "last_id": models[-1]["id"]}
    return {"object": "list", "data": models, "has_more": False, **ends}


@router.get("/v1/models/{id}", response_model=Model, summary="A model", openapi_extra=ASSUMED)
def get_model(caller: InferenceCaller, model_id: ResourceId, tx: Tx) -> dict[str, object]:
    """Answers it as the list does."""
    model = next((model for model in listed(tx, caller.organization_id) if model["id"] == model_id), None)
    if model is None:
        raise InferenceError(*MODEL_NOT_FOUND, f"There is no model {model_id!r}; GET /v1/models lists what there is.")
    return model


async def _answered(
    cloud: Cloud, organization_id: str, family: Family, body: ChatRequest | MessagesRequest, request: Request
) -> Response:
    asked = Question(family, body, ", ".join(request.headers.getlist("via")))
    with cloud.store.transaction() as tx:
        model, now = find_model(tx, organization_id, asked.request.model, asked.dialect.family), tx.now
        answered = None if asked.request.stream else invoke.answer_now(model, asked, now)
        if answered is not None:
            cloud.funds.require(tx, organization_id, answered.usage)
            charge(tx, organization_id, answered.usage)
    if answered is None:
        with ExitStack() as holding:
            reserve = holding.enter_context(Hold(cloud.funds, cloud.store, organization_id)).reserve
            if asked.request.stream:
                asking = invoke.stream(cloud.upstreams, model, asked, now, reserve, holding)
                streaming = await _unless_left(request, asking)
                return _streamed(cloud, organization_id, asked, request, streaming, holding.pop_all())
            answered = await _unless_left(request, invoke.answer(cloud.upstreams, model, asked, now, reserve))
            with cloud.store.transaction() as tx:
                charge(tx, organization_id, answered.usage)
    return answer(answered.body, headers=answered.headers)


def _streamed(
    cloud: Cloud, organization_id: str, asked: Question, request: Request, streaming: Streaming, held: ExitStack
) -> Response:
    exchange, source = exchange_of(request.scope), streaming.source
    if exchange.cut_stream_after is not None:
        source = frames.broken_after(source, exchange.cut_stream_after)

    def pay(used: Usage) -> None:
        if not exchange.reply_breaks:
            with cloud.store.transaction() as tx:
                charge(tx, organization_id, used)

    return EventStream(source, asked.dialect, streaming.headers, Bill(asked.partly, pay), held)


async def _unless_left(request: Request, asking: Coroutine[None, None, _Answer]) -> _Answer:
    """A model's answer; if the client leaves, cancels the request to the model and raises ClientDisconnect."""
    asked, left = asyncio.ensure_future(asking), asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait((asked, left), return_when=asyncio.FIRST_COMPLETED)
        if not asked.done():
            raise ClientDisconnect
        return asked.result()
    finally:
        asked.cancel()
        left.cancel()
        await asyncio.gather(asked, left, return_exceptions=True)
        # An error refers to this frame: if that referred to the error, all of the request would wait to be collected.
        del asked, left


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
