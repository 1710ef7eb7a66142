"""The layer that finds out who calls, before faults and routes see the request."""

from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from relay_localcloud.http.errors import ApiError, error_response
from relay_localcloud.http.exchange import exchange_of
from relay_localcloud.http.principal import Principal
from relay_localcloud.kernel.store import Store, Tx


class Authentication:
    """Every operation below `/v1` needs `Authorization: Bearer <key or session token>`: 401 without (section 5)."""

    def __init__(self, app: ASGIApp, store: Store, authenticate: Callable[[Tx, str], Principal]) -> None:
        self._app = app
        self._store = store
        self._authenticate = authenticate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its principal, or answer 401."""
        exchange = exchange_of(scope)
        if exchange.operation is not None and scope["path"].startswith("/v1/"):
            try:
                principal = self._principal(Headers(scope=scope))
            except ApiError as error:
                await error_response(error)(scope, receive, send)
                return
            exchange.principal = principal.acting_in(exchange.path_params.get("orgId", principal.organization_id))
        await self._app(scope, receive, send)

    def _principal(self, headers: Headers) -> Principal:
        scheme, _, credential = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not credential.strip():
            raise ApiError(401, "Send an API key in the header: Authorization: Bearer <API key>.")
        with self._store.transaction() as tx:
            return self._authenticate(tx, credential.strip())
