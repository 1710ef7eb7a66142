"""Reading request bodies strictly, and writing answers.

    async def create(caller: VmWriter, body: Body[PodCreate], cloud: CurrentCloud) -> Response:
        ...
        return answer(record)

Put the caller before the body among the parameters: parameters are resolved in order, and a missing scope (403) comes
before an invalid body (400). The Content-Type is ignored; JSON is not coerced (`"1"` and `true` are not integers);
unknown fields are accepted and shown as `unreadFields` in the request log.
"""

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError
from pydantic.alias_generators import to_camel
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive

from relay_localcloud.http.arguments import Source
from relay_localcloud.http.errors import ApiError, sentence
from relay_localcloud.http.exchange import exchange_of
from relay_localcloud.http.json_values import MOST_VALUES, has_more, parsed, uncollected
from relay_localcloud.http.loggable import loggable

LARGEST_BODY = 256 * 1024
MOST_BODY_VALUES = 20_000
"""The limit of the management API: an invalid or unknown value there costs more than a value of a chat."""
LARGEST_CONTROL_BODY = 8 * 1024 * 1024
"""The limit for bodies from administrators, such as the body that a fault answers with."""

LONGEST_REST = 256 * 1024 * 1024
"""How much of a body that is too large is read: a client that is still sending does not read an answer."""

_ModelT = TypeVar("_ModelT", bound=BaseModel)

# Passes strict validation, but could perhaps not be stored or shown: it needs a closer look.
_SUSPICIOUS = re.compile(rb"\\u0000|\d{19}|[0-9][eE]")
_LONG = 64 * 1024
"""Bytes of a body from which checking its values is faster than searching its text."""

_INT64 = 2**63


class BodyReader(Generic[_ModelT]):
    """Reads one model from the request's body."""

    def __init__(self, model: type[_ModelT], marker: "BodyMarker") -> None:
        self.model = model
        self.marker = marker

    async def __call__(self, request: Request) -> _ModelT:
        """Read the body; ApiError 400 names the field that is wrong, 413 is for a body that is too large."""
        raw = await read_body(request, self.marker.largest, self.marker.remedy)
        most = self.marker.most_values
        if len(raw) > 2 * most and await has_more(raw, most):  # each value takes two bytes
            over = f"The body has over {most} values (items of lists and members of objects)"
            raise ApiError(self.marker.too_many if len(raw) > LARGEST_BODY else 400, f"{over}{self.marker.remedy}.")
        document: JsonValue = {} if self.marker.optional and not raw else parse(raw)
        exchange_of(request.scope).body = loggable(len(raw), document) if raw else None
        await asyncio.sleep(0)  # each of the two steps may take a while
        with uncollected():
            return self.validated(document, request)

    def validated(self, document: JsonValue, request: Request) -> _ModelT:
        """The document as the model; fields that it does not have are noted as unread."""
        try:
            return self._read(document, "forbid")
        except ValidationError as error:
            if self.marker.known_fields_only:
                raise _invalid(error) from None
        try:
            body = self._read(document, "ignore")
        except ValidationError as error:
            raise _invalid(error) from None
        read = body.model_dump(mode="json", by_alias=True, exclude_unset=True)
        exchange_of(request.scope).note_unread(_unread(document, read))
        return body

    def _read(self, document: JsonValue, extra: Literal["forbid", "ignore"]) -> _ModelT:
        return self.model.model_validate(document, strict=True, by_alias=True, by_name=False, extra=extra)


def _unread(document: JsonValue, read: JsonValue, path: str = "") -> Iterator[str]:
    """The fields of the document that the model does not have."""
    if isinstance(document, dict) and isinstance(read, dict):
        for name, value in document.items():
            if name not in read:
                yield path + name
            elif isinstance(value, (dict, list)):
                yield from _unread(value, read[name], f"{path}{name}.")
    elif isinstance(document, list) and isinstance(read, list):
        for index, (value, known) in enumerate(zip(document, read, strict=False)):
            yield from _unread(value, known, f"{path}{index}.")


def _invalid(error: ValidationError) -> ApiError:
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    return ApiError(400, sentence([each for each in errors if each["type"] != "extra_forbidden"] or errors))


@dataclass(frozen=True)
class BodyMarker:
    """Marks a parameter as the request's body."""

    optional: bool = False
    known_fields_only: bool = False
    largest: int = LARGEST_BODY
    most_values: int = MOST_BODY_VALUES
    too_many: int = 400
    """The status for a body of more values than that; 400 in any case up to the length that is usual."""
    remedy: str = ""
    """What to do about a body that exceeds a limit, as the end of a sentence."""
    reader: type[BodyReader[Any]] = BodyReader

    def source(self, parameter: Parameter) -> Source:
        """A reader of the parameter's model."""
        return self.reader(parameter.annotation.__origin__, self)


Body = Annotated[_ModelT, BodyMarker()]
"""A parameter that is the request's body: `body: Body[PodCreate]`."""

OptionalBody = Annotated[_ModelT, BodyMarker(optional=True)]
"""An optional body: an absent one is read as `{}`."""

ControlBody = Annotated[
    _ModelT, BodyMarker(known_fields_only=True, largest=LARGEST_CONTROL_BODY, most_values=MOST_VALUES)
]
"""The body of a control call: like `Body`, but unknown fields are refused."""

OptionalControlBody = Annotated[
    _ModelT, BodyMarker(optional=True, known_fields_only=True, largest=LARGEST_CONTROL_BODY, most_values=MOST_VALUES)
]
"""An optional body of a control call: an absent one is read as `{}`."""


class ControlRequest(BaseModel):
    """Base of the bodies of control calls."""

    model_config = ConfigDict(alias_generator=to_camel, frozen=True, strict=True, defer_build=True)


def unstalled(receive: Receive, seconds: float, came: Callable[[], None]) -> Receive:
    """Receive a body; ApiError 408, which ends the connection, if none of it comes for so many seconds.

    `came` is called once, with the last part; its ApiError refuses the request.
    """
    whole = False

    async def receive_more() -> Message:
        nonlocal whole
        if whole:  # the next message says that the client has gone, however long that takes
            return await receive()
        try:
            async with asyncio.timeout(seconds):
                message = await receive()
        except TimeoutError:
            closed = {"Connection": "close"}
            raise ApiError(408, f"No part of the body came for {seconds:g} seconds.", headers=closed) from None
        whole = not message.get("more_body", False)
        if whole and message["type"] == "http.request":
            came()
        return message

    return receive_more


async def read_body(request: Request, largest: int = LARGEST_BODY, remedy: str = "") -> bytes:
    """The raw body; ApiError 413 if it is over the limit, after the client has sent the rest, which is dropped."""
    chunks = bytearray()
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size <= largest:
            chunks += chunk
        elif size > largest + LONGEST_REST:
            break
    if size > largest:
        raise ApiError(413, f"The body is over {largest} bytes{remedy}.")
    return bytes(chunks)


@uncollected()
def parse(raw: bytes) -> JsonValue:
    """Parse JSON; ApiError 400 for invalid JSON, and for values that cannot be stored."""
    if not raw:
        raise ApiError(400, "The body is empty; it must be a JSON object.")
    try:
        document = parsed(raw)
    except ValueError as error:
        raise ApiError(400, f"The body is not valid JSON: {error}.") from None
    if len(raw) > _LONG or _SUSPICIOUS.search(raw):
        refuse_unstorable(document, "")
    return document


Answer = BaseModel | Mapping[str, Any] | Sequence[Any]
"""Content of a JSON answer."""


def answer(content: Answer, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer. Models are written by alias without absent fields; dicts exactly as they are."""
    if isinstance(content, BaseModel):
        body = content.model_dump_json(by_alias=True, exclude_none=True)
    else:
        body = json.dumps(content, default=_model_json, separators=(",", ":"))
    return Response(body, status, dict(headers or {}), "application/json")


def no_content() -> Response:
    """The answer 204."""
    return Response(status_code=204)


def _model_json(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def refuse_unstorable(value: JsonValue, where: str) -> None:
    """Raise ApiError 400 for what the state cannot store; `where` is its path of fields, empty for a whole body."""
    # Recursion is safe: the parser refuses nesting over 200 levels.
    if isinstance(value, dict):
        for key, item in value.items():
            refuse_unstorable(key, where)
            refuse_unstorable(item, f"{where}.{key}" if where else key)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            refuse_unstorable(item, f"{where}.{index}")
    elif isinstance(value, str) and "\0" in value:
        raise ApiError(400, f"{where or 'The body'}: a string cannot contain the character U+0000.")
    elif isinstance(value, int) and not -_INT64 <= value < _INT64:
        raise ApiError(400, f"{where or 'The body'}: a number cannot be outside 64 bits.")
    elif isinstance(value, float) and value in (float("inf"), float("-inf")):
        raise ApiError(400, f"{where or 'The body'}: a number cannot be infinite.")
