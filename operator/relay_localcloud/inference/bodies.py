"""The bodies of the inference API: like `http/bodies.py`, up to 10 MiB (section 8)."""

from typing import Annotated, TypeVar

from pydantic import BaseModel, JsonValue, ValidationError
from starlette.requests import Request

from relay_localcloud.http.bodies import BodyMarker, BodyReader
from relay_localcloud.http.errors import sentence
from relay_localcloud.http.exchange import exchange_of
from relay_localcloud.http.json_values import MOST_VALUES
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
    """Parse a document as a request to a model, keeping unknown fields; InferenceError 400 names the wrong field."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_context=False, include_input=False)
        raise InferenceError(*INVALID_REQUEST, sentence(wrong)) from None


_TO_A_FILE = ": upload the records as a file with POST /v1/files, and give its id as input_file_id"
RecordsBody = Annotated[
    _ModelT, BodyMarker(largest=LARGEST_BODY, most_values=MOST_VALUES, too_many=413, remedy=_TO_A_FILE)
]
"""A parameter that is the request's body, which may contain the records of a batch."""

AskedBody = Annotated[_AskedT, BodyMarker(largest=LARGEST_BODY, most_values=MOST_VALUES, reader=_AskedReader)]
"""A request's body that is passed on to a model: its unknown fields are kept."""
