"""Asking a model once: what online requests and the records of batches have in common.

    answer = invoke_now(tx, organization_id, family, body)    # None where the model's server is over the network
    answer = await invoke(cloud, organization_id, family, body)

Neither charges: `charges.charge` does, whole for an online request, half for a batch.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import JsonValue, ValidationError

from relay_localcloud.cloud import Cloud
from relay_localcloud.errors import sentence
from relay_localcloud.inference import chat, engine, messages
from relay_localcloud.inference.errors import (
    INVALID_REQUEST,
    MODEL_NOT_FOUND,
    UNSUPPORTED_API,
    InferenceError,
)
from relay_localcloud.inference.models import BUILT_IN, NANO_USD_PER_TOKEN, BuiltInModel
from relay_localcloud.instants import SECOND
from relay_localcloud.store import Tx
from relay_wire.inference import ChatRequest, Family, MessagesRequest

ModelRequest = ChatRequest | MessagesRequest

_REQUESTS: Final[Mapping[Family, type[ChatRequest] | type[MessagesRequest]]] = {
    Family.CHAT_COMPLETIONS: ChatRequest,
    Family.MESSAGES: MessagesRequest,
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model answered, its tokens, and what they cost online."""

    body: dict[str, Any]
    input_tokens: int
    output_tokens: int

    @property
    def cost_nano_usd(self) -> int:
        """The price of the tokens, in and out."""
        return (self.input_tokens + self.output_tokens) * NANO_USD_PER_TOKEN


def read(family: Family, body: JsonValue) -> ModelRequest:
    """A body as the family's request; InferenceError 400 names the field that is wrong."""
    try:
        return _REQUESTS[family].model_validate(body)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_context=False, include_input=False)
        raise InferenceError(*INVALID_REQUEST, sentence(wrong)) from None


def invoke_now(tx: Tx, organization_id: str, family: Family, body: JsonValue) -> Answer | None:
    """Ask a built-in model, at once; None where the model's server is over the network. Raises InferenceError."""
    request = read(family, body)
    return answer_now(find_model(tx, organization_id, request.model, family), request, tx.now)


async def invoke(cloud: Cloud, organization_id: str, family: Family, body: JsonValue) -> Answer:
    """Ask any model. Raises InferenceError."""
    with cloud.store.transaction() as tx:
        answer = invoke_now(tx, organization_id, family, body)
    assert answer is not None
    return answer


def find_model(tx: Tx, organization_id: str, model_id: str, family: Family) -> BuiltInModel:
    """The model, as far as it serves the family; InferenceError 404 or 400 unsupported_api."""
    del tx, organization_id
    model = BUILT_IN.get(model_id)
    if model is None:
        raise InferenceError(*MODEL_NOT_FOUND, f"There is no model {model_id!r}; GET /v1/models lists what there is.")
    if family not in model.families:
        raise InferenceError(*UNSUPPORTED_API, f"The model {model_id!r} does not serve {family.api}.")
    return model


def answer_now(model: BuiltInModel, request: ModelRequest, now: int) -> Answer:
    """What a built-in model answers; InferenceError where it is one that fails."""
    match request:
        case ChatRequest():
            turn = engine.turn(model, chat.prompt(request))
            body = chat.completion(request, turn, new_id("chatcmpl"), now // SECOND)
            return Answer(body, turn.input_tokens, body["usage"]["completion_tokens"])
        case MessagesRequest():
            turn = engine.turn(model, messages.prompt(request))
            return Answer(messages.message(request, turn, new_id("msg")), turn.input_tokens, turn.output_tokens)


def new_id(prefix: str) -> str:
    """An identifier as the client libraries know them, such as `chatcmpl-3f...`."""
    return f"{prefix}-{secrets.token_hex(12)}"
