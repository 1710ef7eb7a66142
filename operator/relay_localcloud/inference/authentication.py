"""The layer that finds out whose API key calls the inference API (section 5, rule 8)."""

from collections.abc import Mapping
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from relay_localcloud.http.exchange import exchange_of
from relay_localcloud.http.principal import Principal
from relay_localcloud.identity.credentials import KEY_PREFIX, LEGACY_KEY_PREFIX, RefusedKey, authenticate
from relay_localcloud.inference.errors import (
    EXPIRED_API_KEY,
    INVALID_API_KEY,
    MISSING_API_KEY,
    REVOKED_API_KEY,
    InferenceError,
    Row,
    error_response,
)
from relay_localcloud.kernel.store import Store

_ROWS: Final[Mapping[str, Row]] = {
    "invalid": INVALID_API_KEY,
    "revoked": REVOKED_API_KEY,
    "expired": EXPIRED_API_KEY,
}


class InferenceAuthentication:
    """Every operation needs an API key, as bearer token or as `x-api-key`: 401 without. The bearer token goes first."""

    def __init__(self, app: ASGIApp, store: Store) -> None:
        self._app = app
        self._store = store

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its principal, or answer 401."""
        exchange = exchange_of(scope)
        if exchange.operation is not None:
            try:
                exchange.principal = self._principal(Headers(scope=scope))
            except InferenceError as error:
                await error_response(error, scope)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _principal(self, headers: Headers) -> Principal:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        bearer = token.strip() if scheme.lower() == "bearer" else ""
        key = bearer or headers.get("x-api-key", "").strip()
        if not key:
            raise InferenceError(
                *MISSING_API_KEY,
                "Send an API key in a header: Authorization: Bearer <API key>, or x-api-key: <API key>.",
            )
        if not key.startswith((KEY_PREFIX, LEGACY_KEY_PREFIX)):
            raise InferenceError(*INVALID_API_KEY, "This is no API key.")
        try:
            with self._store.transaction() as tx:
                return authenticate(tx, key)
        except RefusedKey as refused:
            raise InferenceError(*_ROWS[refused.reason], refused.message) from None
