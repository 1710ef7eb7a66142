"""The innermost layer: calls the endpoint of a request's operation, and turns every error into an answer."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from relay_localcloud.http.bodies import unstalled
from relay_localcloud.http.errors import ApiError, ErrorAnswer
from relay_localcloud.http.exchange import Operations, exchange_of, segments
from relay_localcloud.http.routing import Done, Route
from relay_localcloud.kernel.store import Store

OPENAPI = "/openapi.json"


class Application:
    """An API: its operations, and the shape of its errors. Endpoints find its parts by type in `request.app.parts`."""

    def __init__(
        self,
        routes: Iterable[Route],
        parts: Mapping[type, object],
        store: Store,
        refused: ErrorAnswer,
        description: Callable[[], object],
        done: Done,
    ) -> None:
        self.routes = {route.operation: route for route in routes}
        self.operations = Operations(self.routes)
        self.parts = parts
        self._store = store
        self._refused = refused
        self._description = description
        self._done = done

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request."""
        scope["app"] = self
        exchange = exchange_of(scope)
        scope["path_params"] = exchange.path_params
        body = unstalled(receive, self._store.settings.stalled_body_seconds, exchange.body_came)
        try:
            response = await self._response(exchange.operation, Request(scope, body))
        except ApiError as error:
            self._note(exchange.operation, scope, error)
            response = self._refused(error, scope)
        except ClientDisconnect:
            return
        except Exception:
            defect = ApiError(500, "The local cloud failed at this; its log on stderr has the traceback.")
            await self._refused(defect, scope)(scope, receive, send)
            raise
        await response(scope, receive, send)

    def _note(self, operation: str | None, scope: Scope, error: ApiError) -> None:
        route = self.routes.get(operation or "")
        if route is not None and route.changes:
            with suppress(ApiError), self._store.transaction() as tx:  # on a full disk a refusal is still answered
                self._done(tx, scope, error)

    async def _response(self, operation: str | None, request: Request) -> Response:
        route = self.routes.get(operation or "")
        if route is not None:
            return await route.respond(request, self._store.transaction, self._done)
        path, method = request.scope["path"], request.method
        allowed = ["GET", "HEAD"] if path == OPENAPI else self.operations.allowed(segments(request.scope))
        if path == OPENAPI and method in allowed:
            return JSONResponse(self._description())
        if allowed:
            raise ApiError(405, f"{method} is not served at {path}.", headers={"Allow": ", ".join(allowed)})
        raise ApiError(404, f"There is nothing at {path}.")
