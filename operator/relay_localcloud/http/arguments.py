"""Where an endpoint's arguments come from, as its annotations say.

    VmReader = Annotated[Principal, Depends(caller_by_this_rule)]
    ResourceId = Annotated[str, Path("id")]
    Days = Annotated[int, Query(), Field(ge=1, le=90, description="How many days.")]

Arguments are found in the order of the parameters, so that a caller without the right (403) does not learn what is
wrong with the body (400).
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from inspect import Parameter, signature
from typing import Any, Final, Literal, Protocol, cast, get_args

from pydantic import TypeAdapter, ValidationError
from starlette.requests import Request

from relay_localcloud.http.errors import ApiError, sentence
from relay_localcloud.kernel.store import Tx

_SPELLED: Final = {
    int: (re.compile(r"-?[0-9]+"), "give a whole number"),
    bool: (re.compile(r"true|false", re.IGNORECASE), "give true or false"),
}
"""How numbers and truth values are written; pydantic also reads `1_0`, `1.0` and `+5`, `yes` and `1`."""

Source = Callable[[Request], Awaitable[object]]
"""Computes an argument from a request."""


class Marker(Protocol):
    """What a parameter's annotation carries."""

    def source(self, parameter: Parameter) -> Source:
        """The source of this parameter's argument."""


class Call:
    """A function, and the sources of its arguments."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function

    @cached_property
    def sources(self) -> Mapping[str, Source]:
        """Sources by parameter name; the caller supplies a `tx`."""
        parameters = signature(self._function).parameters.values()
        return {each.name: _source_of(each) for each in parameters if each.annotation is not Tx}

    async def arguments(self, request: Request) -> dict[str, object]:
        """The function's arguments."""
        return {name: await source(request) for name, source in self.sources.items()}

    async def __call__(self, request: Request) -> object:
        """Call the function, which is a coroutine function."""
        return await cast("Awaitable[object]", self._function(**await self.arguments(request)))


@dataclass(frozen=True)
class Depends:
    """The argument is the result of a coroutine function, whose own arguments are found in the same way."""

    function: Callable[..., Awaitable[object]]

    def source(self, parameter: Parameter) -> Source:
        """A call."""
        del parameter
        return Call(self.function)


class Value:
    """One value of the path or of the query string, as pydantic parses it; ApiError 400 if it cannot."""

    def __init__(self, name: str, place: Literal["path", "query"], parameter: Parameter) -> None:
        self.name = name
        self.place = place
        self.default = parameter.default
        self._annotation = parameter.annotation

    @cached_property
    def adapter(self) -> TypeAdapter[Any]:
        """Validates the value."""
        return TypeAdapter(self._annotation)

    @cached_property
    def _spelled(self) -> tuple[re.Pattern[str], str] | None:
        """How it is written, and what to say otherwise; None for text."""
        meant = get_args(self._annotation)[0]
        return next((_SPELLED[each] for each in (meant, *get_args(meant)) if each in _SPELLED), None)

    @property
    def required(self) -> bool:
        """Whether a request must give it: it has no default."""
        return self.default is Parameter.empty

    async def __call__(self, request: Request) -> object:
        """The value, or the default if it is absent."""
        given = (request.path_params if self.place == "path" else request.query_params).get(self.name)
        if given is None:
            if self.required:
                raise ApiError(400, f"{self.name}: Field required.")
            return self.default
        if self._spelled is not None and not self._spelled[0].fullmatch(given):
            raise ApiError(400, f"{self.name}: {self._spelled[1]}.")
        try:
            return self.adapter.validate_python(given)
        except ValidationError as error:
            wrong = error.errors(include_url=False, include_context=False, include_input=False)
            raise ApiError(400, sentence([{**each, "loc": (self.name, *each["loc"])} for each in wrong])) from None


@dataclass(frozen=True)
class Path:
    """The argument is the path parameter of this name; a `Field` beside it adds constraints."""

    alias: str | None = None

    def source(self, parameter: Parameter) -> Source:
        """A value of the path."""
        return Value(self.alias or parameter.name, "path", parameter)


@dataclass(frozen=True)
class Query:
    """The argument is from the query string; a `Field` beside it adds constraints."""

    alias: str | None = None

    def source(self, parameter: Parameter) -> Source:
        """A value of the query string."""
        return Value(self.alias or parameter.name, "query", parameter)


async def _request(request: Request) -> Request:
    return request


def _source_of(parameter: Parameter) -> Source:
    if parameter.annotation is Request:
        return _request
    for each in getattr(parameter.annotation, "__metadata__", ()):
        if hasattr(each, "source"):
            return cast("Marker", each).source(parameter)
    raise TypeError(f"nothing says where the parameter {parameter.name!r} comes from")
