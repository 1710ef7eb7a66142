"""Operations as a table: a method, a path, and an endpoint.

    router = Router("Snapshots")

    @router.get("/v1/vms/{id}/snapshots", summary="List snapshots")
    def list_snapshots(caller: VmReader, vm_id: ResourceId, page: PageRequest, tx: Tx) -> SnapshotList: ...

A plain function runs in one transaction, `tx`, and its result is answered once the transaction is on disk: a model or
a dict as JSON, None as 204, a `Response` as it is. A coroutine function opens transactions of its own; it may leave the
last of them to its caller, as an `Ending`.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from inspect import iscoroutinefunction
from typing import Any, Protocol, TypedDict, TypeVar, Unpack

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from relay_localcloud.http.arguments import Call
from relay_localcloud.http.bodies import answer, no_content
from relay_localcloud.kernel.disk import Unwritable
from relay_localcloud.kernel.store import Tx

Transaction = Callable[[], AbstractContextManager[Tx]]

Done = Callable[[Tx, Scope, object], None]
"""Called with a function's result in its last transaction, without an `Ending` in a later one, or with an ApiError."""

_EndpointT = TypeVar("_EndpointT", bound=Callable[..., object])


class _Decorator(Protocol):
    def __call__(self, endpoint: _EndpointT, /) -> _EndpointT: ...


class Said(TypedDict, total=False):
    """A route's part of the OpenAPI description."""

    summary: str
    response_model: Any  # of the answer, if the endpoint's own annotation does not state it
    status_code: int
    openapi_extra: Mapping[str, Any] | Callable[[], Mapping[str, Any]]
    responses: Mapping[int, Mapping[str, Any]]


@dataclass(frozen=True)
class Ending:
    """The last transaction of a coroutine function, in which all that it changes happens; `run` returns the result.

    `around` sees it fail, also if it cannot be committed.
    """

    run: Callable[[Tx], object]
    around: AbstractContextManager[None] = field(default_factory=nullcontext)


@dataclass(frozen=True)
class Route:
    """One operation."""

    method: str
    path: str
    endpoint: Callable[..., object]
    tag: str | None
    said: Said

    @property
    def operation(self) -> str:
        """`METHOD /path/{template}`."""
        return f"{self.method} {self.path}"

    @cached_property
    def call(self) -> Call:
        """The endpoint with the sources of its arguments."""
        return Call(self.endpoint)

    @property
    def changes(self) -> bool:
        """Whether the operation may change something."""
        return self.method != "GET"

    async def respond(self, request: Request, transaction: Transaction, done: Done) -> Response:
        """Call the endpoint, and turn its result into a response; `done` is called if the operation is a change."""
        arguments = await self.call.arguments(request)
        if iscoroutinefunction(self.endpoint):
            result = await self.endpoint(**arguments)
        else:
            result = Ending(lambda tx: self.endpoint(**arguments, tx=tx))
        if isinstance(result, Ending):
            with result.around, transaction() as tx:
                result = result.run(tx)
                if self.changes:
                    done(tx, request.scope, result)
        elif self.changes:
            # The change is done already, so a full disk must not answer it 503.
            with suppress(Unwritable), transaction() as tx:
                done(tx, request.scope, result)
        if isinstance(result, Response):
            return result
        return no_content() if result is None else answer(result, self.said.get("status_code", 200))


class Router:
    """The operations of a noun; without a tag, the OpenAPI description omits them."""

    def __init__(self, tag: str | None = None) -> None:
        self._tag = tag
        self.routes: list[Route] = []

    def get(self, path: str, **said: Unpack[Said]) -> _Decorator:
        """GET."""
        return self._route("GET", path, said)

    def post(self, path: str, **said: Unpack[Said]) -> _Decorator:
        """POST."""
        return self._route("POST", path, said)

    def put(self, path: str, **said: Unpack[Said]) -> _Decorator:
        """PUT."""
        return self._route("PUT", path, said)

    def patch(self, path: str, **said: Unpack[Said]) -> _Decorator:
        """PATCH."""
        return self._route("PATCH", path, said)

    def delete(self, path: str, **said: Unpack[Said]) -> _Decorator:
        """DELETE."""
        return self._route("DELETE", path, said)

    def below(self, prefix: str, tag: str) -> Iterator[Route]:
        """The router's operations with a prefix before their paths, described under a tag."""
        for route in self.routes:
            yield replace(route, path=prefix + route.path, tag=tag)

    def _route(self, method: str, path: str, said: Said) -> _Decorator:
        def add(endpoint: _EndpointT) -> _EndpointT:
            self.routes.append(Route(method, path, endpoint, self._tag, said))
            return endpoint

        return add
