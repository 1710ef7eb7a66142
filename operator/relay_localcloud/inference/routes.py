"""Chat completions, messages and models (section 4, "Inference API")."""

from typing import Annotated

from fastapi import APIRouter, Response

from relay_localcloud.bodies import answer
from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.inference import invoke
from relay_localcloud.inference.bodies import InferenceBody
from relay_localcloud.inference.callers import PayingCaller
from relay_localcloud.inference.charges import charge
from relay_localcloud.openapi import ASSUMED
from relay_wire.inference import (
    ChatCompletion,
    ChatRequest,
    Family,
    MessageAnswer,
    MessagesRequest,
)

router = APIRouter(tags=["Inference"])


@router.post("/v1/chat/completions", response_model=ChatCompletion, summary="Complete a chat")
async def complete_chat(
    caller: PayingCaller,
    body: Annotated[ChatRequest, InferenceBody(ChatRequest, unread="allow")],
    cloud: CurrentCloud,
) -> Response:
    """Answers one object."""
    with cloud.store.transaction() as tx:
        model = invoke.find_model(tx, caller.organization_id, body.model, Family.CHAT_COMPLETIONS)
        answered = invoke.answer_now(model, body, tx.now)
        charge(tx, caller.organization_id, answered.cost_nano_usd)
    return answer(answered.body)


@router.post("/v1/messages", response_model=MessageAnswer, summary="Answer messages", openapi_extra=ASSUMED)
async def answer_messages(
    caller: PayingCaller,
    body: Annotated[MessagesRequest, InferenceBody(MessagesRequest, unread="allow")],
    cloud: CurrentCloud,
) -> Response:
    """Answers one object."""
    with cloud.store.transaction() as tx:
        model = invoke.find_model(tx, caller.organization_id, body.model, Family.MESSAGES)
        answered = invoke.answer_now(model, body, tx.now)
        charge(tx, caller.organization_id, answered.cost_nano_usd)
    return answer(answered.body)
