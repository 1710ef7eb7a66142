"""How the cloud's JSON becomes Python: camelCase on the wire, snake_case in code.

`Sent` is what a caller sends: unknown fields and wrong types are refused (sections 2 and 4 give every field).
`Received` is what the cloud answers: unknown fields are ignored (section 9, rule 4), absent optional fields are `None`.
"""

import re
from typing import Annotated, Any, Final, Generic, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, core_schema

T = TypeVar("T")


class Sent(BaseModel):
    """A request body, exactly as section 2 allows it; null in an optional field means that it is absent.

    Dump it with `by_alias=True, exclude_none=True`. A server that wants to overlook unknown fields, as the cloud does,
    passes `extra="ignore"` to `model_validate`; `by_name=False` makes it take the wire's spelling only.
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
        defer_build=True,  # most processes use few of the models
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
        coerce_numbers_to_str=True,  # identifiers are opaque (section 1), also where they look like numbers
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
    """Reads a value of the wrong type as absent."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:  # noqa: ANN401 - pydantic's hook
        return core_schema.with_default_schema(handler(source), default=None, on_error="default")


Lenient = Annotated[T | None, _ReadAsAbsent()]
"""An optional field of a received object: absent, null and of an unexpected type are all `None`.

One odd detail must not make a whole answer unreadable: the answer to a create carries the id of something paid for.
"""

Identifier = Annotated[str, Field(min_length=1)]
"""An opaque identifier (section 1); clients must not parse it."""

RESOURCE_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:~@=+-]{0,252}")
"""What the identifier of a resource looks like, as a whole: one segment of a path that names no other, safe to show."""

ResourceId = Annotated[str, Field(pattern=rf"^(?:{RESOURCE_ID.pattern})$")]
"""An opaque identifier by which a resource is asked for again. An answer with another in its place is unreadable."""

OptionalId = Annotated[ResourceId | None, BeforeValidator(lambda value: value or None)]
"""The same where there may be none: absent, null and empty are all `None`."""

Word = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]
"""A string that reads as empty if the cloud says null."""


ListOf = Annotated[list[T], BeforeValidator(lambda value: [] if value is None else value)]
"""A received array; null reads as empty."""


SentList = Annotated[list[T], Field(fail_fast=True)]
"""An array that is sent: of very many items that are wrong, the first is told."""


def _printable(value: str) -> str:
    if not value.isprintable():
        raise ValueError("must consist of printable characters")
    return value


Printable = AfterValidator(_printable)
"""Beside the bounds of a string that people read: no line breaks or other control characters."""

Name = Annotated[str, Field(min_length=1, max_length=63), Printable]
"""The name of a workload. The bounds are assumed: section 2 gives none."""

Port = Annotated[int, Field(ge=1, le=65535)]
"""A TCP port. The bounds are assumed: section 2 gives none."""

NonEmpty = Annotated[str, Field(min_length=1)]
"""A required string: empty is the same as missing."""


class Items(Received, Generic[T]):
    """A list response without pages: `{items: [...]}`; a bare array is understood as well."""

    items: ListOf[T]

    @model_validator(mode="before")
    @classmethod
    def _bare_array(cls, data: object) -> object:
        return {"items": data} if isinstance(data, list) else data


class Page(Received, Generic[T]):
    """One page of a cursor-paged list (section 1): `nextCursor` absent or empty means the last page."""

    items: ListOf[T]
    next_cursor: str | None = None
