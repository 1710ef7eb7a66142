"""Finds the route of a request by its operation, which `RequestLogging` has found already.

The framework would try one route after another, which costs more than all else that a small request does.
"""

from collections.abc import Iterable, Iterator

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.convertors import StringConvertor
from starlette.datastructures import URLPath
from starlette.routing import BaseRoute, Match, NoMatchFound
from starlette.types import Receive, Scope, Send

from relay_localcloud.http.exchange import exchange_of

Mounted = tuple[str, APIRouter]
"""A router, and the prefix of its paths."""


def operations(mounted: Iterable[Mounted]) -> Iterator[tuple[str, str]]:
    """Every (method, path template) of these routers."""
    for method, path, _ in _served(mounted):
        yield method, path


class Dispatch(BaseRoute):
    """Stands for all routes of these routers; whatever else an application has is tried after it."""

    def __init__(self, mounted: Iterable[Mounted]) -> None:
        served = _served(mounted)
        self._routes = {f"{method} {path}": route for method, path, route in served if _takes_whole_parts(route)}

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """The route of the request's operation."""
        exchange = exchange_of(scope)
        route = self._routes.get(exchange.operation or "")
        if route is None:
            return Match.NONE, {}
        return Match.FULL, {"endpoint": route.endpoint, "path_params": dict(exchange.path_params), "route": route}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the route that matched answer."""
        await scope["route"].handle(scope, receive, send)

    def url_path_for(self, name: str, /, **path_params: object) -> URLPath:
        """No URL is ever asked for."""
        raise NoMatchFound(name, path_params)


def _served(mounted: Iterable[Mounted]) -> Iterator[tuple[str, str, APIRoute]]:
    # Not from the application's own list, for which the framework would build every route a second time.
    for prefix, router in mounted:
        for route in router.routes:
            assert isinstance(route, APIRoute), "a router of the cloud has operations and nothing else"
            for method in sorted(route.methods or ()):
                yield method, prefix + route.path, route


def _takes_whole_parts(route: APIRoute) -> bool:
    return all(isinstance(convertor, StringConvertor) for convertor in route.param_convertors.values())
