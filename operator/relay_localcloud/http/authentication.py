"""The layer that identifies the caller, before faults and routes see the request."""

import hashlib
import time
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from relay_localcloud.http.connections import ABORT
from relay_localcloud.http.errors import ApiError, ErrorAnswer
from relay_localcloud.http.exchange import exchange_of
from relay_localcloud.http.principal import Principal
from relay_localcloud.http.turns import REFUSED, Turns
from relay_localcloud.kernel.acting import ORGANIZATION
from relay_localcloud.kernel.store import Store, Tx

KNOWN: Final = 10_000
"""Credentials that are remembered as valid; any other waits in the lane of refused ones before it is looked up."""

LONG_SECONDS: Final = 1.0
"""Seconds after which a caller is looked up again: a body may come at any pace, and an answer take any time."""


class Authentication:
    """Every operation below `/v1` needs a credential: 401 without (section 5)."""

    def __init__(
        self,
        app: ASGIApp,
        store: Store,
        credential: Callable[[Headers], str],
        holder: Callable[[Tx, str], Principal],
        refused: ErrorAnswer,
        turns: Turns,
    ) -> None:
        self._app = app
        self._store = store
        self._credential = credential
        self._holder = holder
        self._refused = refused
        self._turns = turns
        self._known: Final[dict[bytes, None]] = {}  # SHA-256 of each, the oldest first

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its principal, or answer 401."""
        exchange = exchange_of(scope)
        if exchange.operation is not None and scope["path"].startswith("/v1/"):
            headers, named = Headers(scope=scope), exchange.path_params.get("orgId")
            try:
                exchange.principal = await self._caller(headers, named)
            except ApiError as error:
                await self._refused(error, scope)(scope, receive, send)
                return
            known_until = time.monotonic() + LONG_SECONDS
            exchange.body_came = partial(self._admit_again, exchange.principal, headers, named, known_until)
            send = self._while_admitted(scope, headers, known_until, send)
            ORGANIZATION.set(exchange.principal.organization_id)
        await self._app(scope, receive, send)

    async def _caller(self, headers: Headers, named: str | None) -> Principal:
        """The caller, acting in the organization of the path, if it names one; ApiError 401.

        A flood of unknown keys delays other callers with unknown keys, and nobody else.
        """
        try:
            credential = self._credential(headers)
        except ApiError:
            await self._turns.of(REFUSED)
            raise
        digest = hashlib.sha256(credential.encode()).digest()
        if digest not in self._known:
            await self._turns.of(REFUSED)
        try:
            principal = self._looked_up(credential, named)
        except ApiError:
            self._known.pop(digest, None)
            raise
        self._known[digest] = None
        if len(self._known) > KNOWN:
            del self._known[next(iter(self._known))]
        return principal

    def _looked_up(self, credential: str, named: str | None) -> Principal:
        with self._store.transaction(at=self._store.current_time()) as tx:  # also if a fault makes the answer stale
            principal = self._holder(tx, credential)
            return principal if named is None else principal.acting_in(named)

    def _admit_again(self, caller: Principal, headers: Headers, named: str | None, known_until: float) -> None:
        """Raise ApiError 401 or 403 if the caller lost rights while a body came that took long."""
        if time.monotonic() < known_until:
            return
        again = self._looked_up(self._credential(headers), named)
        same = all(again.role_in(each) == caller.role_in(each) for each in caller.admitted)
        if again.rights != caller.rights or not same:
            raise ApiError(403, "Your rights changed while the body of this request came: send it again.")

    def _while_admitted(self, scope: Scope, headers: Headers, known_until: float, send: Send) -> Send:
        """Send an answer, and cut it between two of its pieces once the key or session is not valid any more."""

        exchange = exchange_of(scope)

        async def send_on(message: Message) -> None:
            nonlocal known_until
            if message.get("more_body") and time.monotonic() >= known_until:
                known_until = time.monotonic() + LONG_SECONDS
                try:
                    self._looked_up(self._credential(headers), None)
                except ApiError as error:
                    if error.status == HTTPStatus.UNAUTHORIZED:
                        exchange.cut_by = error
                        if exchange.last_words is None:
                            scope["extensions"][ABORT]()
            await send(message)

        return send_on


def bearer(headers: Headers) -> str:
    """The key or session token of `Authorization: Bearer`; ApiError 401."""
    scheme, _, credential = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not credential.strip():
        raise ApiError(401, "Send an API key in the header: Authorization: Bearer <API key>.")
    return credential.strip()
