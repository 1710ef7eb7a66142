"""Maps the cloud's JSON to Python: camelCase on the wire, snake_case in code.

`Sent` is for requests: unknown fields and wrong types are refused (sections 2 and 4 list every field).
`Received` is for answers: unknown fields are ignored (section 9, rule 4), absent optional fields are `None`.
"""

import re
from typing import Annotated, Any, Final, Generic, TypeVar, cast
from unicodedata import category

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, core_schema

T = TypeVar("T")


class Sent(BaseModel):
    """A request body, exactly as section 2 allows it; null in an optional field means absent.

    Dump it with `by_alias=True, exclude_none=True`. A server that ignores unknown fields, as the cloud does, passes
    `extra="ignore"` to `model_validate`; with `by_name=False` it accepts the wire's spelling only.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=True,
        serialize_by_alias=True,
        extra="forbid",
        frozen=True,
        strict=True,
        hide_input_in_errors=True,  # bodies carry env vars and keys
        defer_build=True,  # most processes use only a few of the models
    )

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, data: object) -> object:
        if isinstance(data, dict) and None in data.values():
            return {key: value for key, value in data.items() if value is not None}
        return data


class Received(BaseModel):
    """A response body, or a part of one."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=True,
        serialize_by_alias=True,
        extra="ignore",
        frozen=True,
        coerce_numbers_to_str=True,  # identifiers are opaque (section 1), even those that look like numbers
        hide_input_in_errors=True,
        defer_build=True,
    )


class SnakeSent(Sent):
    """A request body of the inference API, whose fields are snake_case on the wire too."""

    model_config = ConfigDict(alias_generator=None)


class SnakeReceived(Received):
    """A response body of the inference API, or a part of one."""

    model_config = ConfigDict(alias_generator=None)


class _ReadAsAbsent:
    """Reads a value of the wrong type as absent; the first wrong item of a list or dict decides, as in `ListOf`."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:  # noqa: ANN401 - pydantic's hook
        schema = handler(source)
        inner = cast("dict[str, object]", schema["schema"] if schema["type"] == "nullable" else schema)
        if inner["type"] in {"list", "dict"}:
            inner["fail_fast"] = True
        return core_schema.with_default_schema(schema, default=None, on_error="default")


Lenient = Annotated[T | None, _ReadAsAbsent()]
"""An optional field of a received object: `None` if absent, null or of an unexpected type.

One odd detail must not make a whole answer unreadable: the answer to a create carries the id of something paid for.
"""

Identifier = Annotated[str, Field(min_length=1)]
"""An opaque identifier (section 1); clients must not parse it."""

RESOURCE_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:~@=+-]{0,252}")
"""The form of a resource's identifier: one path segment that cannot mean another resource, and is safe to show."""

ResourceId = Annotated[str, Field(pattern=rf"^(?:{RESOURCE_ID.pattern})$")]
"""An opaque identifier that requests for the resource need. An answer with anything else in its place is unreadable."""

OptionalId = Annotated[ResourceId | None, BeforeValidator(lambda value: value or None)]
"""An identifier that may be missing: absent, null and empty are all `None`."""

Cursor = Annotated[Annotated[str, Field(max_length=4096)] | None, Field(repr=False)]
"""Where the next page of a list begins, passed back exactly as received (section 1); absent on the last page.

Hidden from `repr`, since nobody reads it, and the client makes only what people read legible. The bound is assumed.
"""

Word = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]
"""A string; null reads as empty."""


ListOf = Annotated[list[T], Field(fail_fast=True), BeforeValidator(lambda value: [] if value is None else value)]
"""A received array; null reads as empty. Only the first wrong item is reported: millions of errors take gigabytes."""


def _or_none(value: object, handler: ValidatorFunctionWrapHandler) -> object:
    try:
        return handler([] if value is None else value)
    except ValidationError:
        return None


LenientListOf = Annotated[Annotated[list[T], Field(fail_fast=True)] | None, WrapValidator(_or_none)]
"""A received array; null reads as empty, and anything unexpected as `None`, so that it is not taken for empty."""

SentList = Annotated[list[T], Field(fail_fast=True)]
"""A sent array; if many items are wrong, only the first is reported."""


_JOINERS: Final = "\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}"


def _printable(value: str) -> str:
    if not all(one.isprintable() or one in _JOINERS or category(one) == "Zs" for one in value):
        raise ValueError("must consist of printable characters")
    return value


Printable = AfterValidator(_printable)
"""Excludes line breaks and other control characters from a string that people read, but not the spaces of any script,
nor what joins letters or emoji."""

Name = Annotated[str, Field(min_length=1, max_length=63), Printable]
"""The name of a workload. The bounds are assumed: section 2 gives none."""

Port = Annotated[int, Field(ge=1, le=65535)]
"""A TCP port. The bounds are assumed: section 2 gives none."""

_MOST: Final = 2**31 - 1
_LARGEST: Final = 10**30

Whole = Annotated[int, AfterValidator(lambda number: max(-_LARGEST, min(number, _LARGEST)))]
"""A received number; one beyond the bounds reads as the nearest. Of thousands of digits, no sum could be written."""

Count = Annotated[int, Field(ge=0, le=_MOST)]
"""A number of things."""

ClampedCount = Annotated[int, AfterValidator(lambda number: max(0, min(number, _MOST)))]
"""A received `Count` that must be there: an odd one reads as the nearest, so that the resource can still be ended."""

Price = Annotated[int, Field(ge=0, le=10**15)]
"""Received cents per hour."""

LONGEST_SECRET: Final = 4096

ShownOnce = Annotated[str, Field(min_length=1, max_length=LONGEST_SECRET, repr=False)]
"""A secret that the cloud shows once. The upper bound is assumed: what is received is kept until it is stored."""

NonEmpty = Annotated[str, Field(min_length=1)]
"""A required string; an empty one counts as missing."""


class Page(Received, Generic[T]):
    """One page of a list (section 1): `nextCursor` absent or empty means the last page.

    Lists that come whole have one page; a bare array is one as well.
    """

    items: ListOf[T]
    next_cursor: Cursor = None

    @model_validator(mode="before")
    @classmethod
    def _bare_array(cls, data: object) -> object:
        return {"items": data} if isinstance(data, list) else data
