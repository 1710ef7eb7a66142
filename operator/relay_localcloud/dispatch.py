"""Finds the route of a request by its operation, which `RequestLogging` has found already.

The framework would try one route after another, which costs more than all else that a small request does.
"""

from fastapi import FastAPI
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.convertors import StringConvertor
from starlette.datastructures import URLPath
from starlette.routing import BaseRoute, Match, NoMatchFound
from starlette.types import Receive, Scope, Send

from relay_localcloud.exchange import exchange_of


class Dispatch(BaseRoute):
    """Stands for all routes of an application that were there when it was made; the others are tried after it."""

    def __init__(self, app: FastAPI) -> None:
        self._routes = {
            f"{method} {context.path}": context.original_route
            for context in iter_route_contexts(app.routes)
            if isinstance(context.original_route, APIRoute) and _takes_whole_parts(context.original_route)
            for method in context.methods or ()
        }

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


def _takes_whole_parts(route: APIRoute) -> bool:
    return all(isinstance(convertor, StringConvertor) for convertor in route.param_convertors.values())
