"""The bodies of the inference API: as `http/bodies.py`, up to 10 MiB (section 8)."""

from typing import Any, TypeVar

from fastapi import Depends, Request
from pydantic import BaseModel, JsonValue, ValidationError

from relay_localcloud.http.bodies import BodyReader
from relay_localcloud.http.errors import sentence
from relay_localcloud.http.exchange import exchange_of
from relay_localcloud.inference.errors import INVALID_REQUEST, InferenceError
from relay_wire.inference import Asked

LARGEST_BODY = 10 * 1024 * 1024

_ModelT = TypeVar("_ModelT", bound=BaseModel)
_AskedT = TypeVar("_AskedT", bound=Asked)


class _AskedReader(BodyReader[_AskedT]):
    def validated(self, document: JsonValue, request: Request) -> _AskedT:
        asked = read(self.model, document)
        exchange_of(request.scope).note_unread(asked.model_extra or ())
        return asked


def read(model: type[_AskedT], document: JsonValue) -> _AskedT:
    """A document as what a model is asked, unknown fields kept; InferenceError 400 names the field that is wrong."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_context=False, include_input=False)
        raise InferenceError(*INVALID_REQUEST, sentence(wrong)) from None


def InferenceBody(model: type[_ModelT]) -> Any:  # noqa: N802, ANN401 - reads like FastAPI's own markers
    """Mark a parameter as the request's body."""
    return Depends(BodyReader(model, largest=LARGEST_BODY))


def AskedBody(model: type[_AskedT]) -> Any:  # noqa: N802, ANN401
    """Mark a parameter as the request's body that goes on to a model: its unknown fields are kept."""
    return Depends(_AskedReader(model, largest=LARGEST_BODY))
