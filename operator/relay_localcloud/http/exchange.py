"""What the layers learn of one request; the request log is written from it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING
from urllib.parse import unquote

from starlette.types import Scope

if TYPE_CHECKING:
    from relay_localcloud.http.errors import ApiError
    from relay_localcloud.http.principal import Principal

_KEY = "relay_localcloud.exchange"

MOST_UNREAD_FIELDS = 100
LONGEST_FIELD = 200


@dataclass
class Exchange:
    """One request: its operation (`METHOD /path/{template}`, None if no route matches) and what the layers found."""

    operation: str | None
    path_params: Mapping[str, str]
    principal: "Principal | None" = None
    body_came: Callable[[], None] = lambda: None  # called once the whole body has come; ApiError if it is refused now
    is_control: bool = False  # of somebody who may use the control interface
    made: str | None = None  # the id of an object that was created, if the answer does not have it
    unread_fields: list[str] = field(default_factory=list)
    body: str | None = None  # the part of the request's body that the log keeps
    fault_id: str | None = None
    price_factor: float = 1.0
    cut_stream_after: int | None = None
    last_words: "Callable[[ApiError], bytes] | None" = None  # how an answer says that it is cut; None: it breaks off
    cut_by: "ApiError | None" = None  # why an answer with last words is to end after the piece that is being sent
    reply_breaks: bool = False  # a fault breaks the connection before the reply or in the middle of it
    status: int | None = None

    def note_unread(self, names: Iterable[str]) -> None:
        """Note fields that nothing reads, within the request log's limits of number and length."""
        room = MOST_UNREAD_FIELDS - len(self.unread_fields)
        self.unread_fields += [name[:LONGEST_FIELD] for name in islice(names, room)]


def attach(scope: Scope, exchange: Exchange) -> None:
    """Attach the exchange to the scope, for the layers below."""
    scope[_KEY] = exchange


def exchange_of(scope: Scope) -> Exchange:
    """The exchange of the request that this scope belongs to."""
    exchange = scope[_KEY]
    assert isinstance(exchange, Exchange)
    return exchange


def segments(scope: Scope) -> Sequence[str]:
    """The segments of a request's path; a slash that is encoded is a part of one, such as of an opaque id."""
    return [unquote(segment) for segment in scope["raw_path"].decode().split("/")]


class Operations:
    """Finds the operation of a request: which `METHOD /path/{template}` it is."""

    def __init__(self, operations: Iterable[str]) -> None:
        self._by_length: dict[tuple[str, int], list[tuple[tuple[str, ...], str]]] = {}
        for operation in operations:
            method, _, template = operation.partition(" ")
            parts = tuple(template.split("/"))
            self._by_length.setdefault((method, len(parts)), []).append((parts, operation))
        for candidates in self._by_length.values():
            candidates.sort(key=lambda candidate: [part.startswith("{") for part in candidate[0]])  # fixed words first

    @property
    def names(self) -> list[str]:
        """Every operation."""
        return [name for candidates in self._by_length.values() for _, name in candidates]

    def find(self, method: str, parts: Sequence[str]) -> tuple[str | None, dict[str, str]]:
        """The operation of a path in segments, and its path parameters; (None, {}) if there is none."""
        for template, operation in self._by_length.get((method, len(parts)), ()):
            params = _match(template, parts)
            if params is not None:
                return operation, params
        return None, {}

    def allowed(self, parts: Sequence[str]) -> list[str]:
        """The methods that are served at a path in segments."""
        return sorted({method for method, _ in self._by_length if self.find(method, parts)[0] is not None})

    def named(self, operation: str) -> str | None:
        """The served operation that a text means, whatever names its path parameters have; None if there is none."""
        method, _, template = operation.partition(" ")
        meant = [_without_name(part) for part in template.split("/")]
        for parts, name in self._by_length.get((method.upper(), len(meant)), ()):
            if [_without_name(part) for part in parts] == meant:
                return name
        return None


def _without_name(part: str) -> str:
    return "{}" if part.startswith("{") and part.endswith("}") else part


def _match(template: tuple[str, ...], parts: Sequence[str]) -> dict[str, str] | None:
    params: dict[str, str] = {}
    for expected, part in zip(template, parts, strict=True):
        if expected.startswith("{"):
            if not part:
                return None
            params[expected[1:-1]] = part
        elif expected != part:
            return None
    return params
