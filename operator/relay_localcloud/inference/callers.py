"""Who may use the inference API: which key is sent (section 5, rule 8), and the conditions for its organization.

An endpoint declares them with its first parameter, so that they come before the body. `InferenceCaller`: a key with the
scope `inference`, of an organization in good standing, 403 otherwise. `PayingCaller`: also one whose available balance
is not below the spending floor, 402 otherwise. For batches it must have access to them as well, 404 otherwise.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Final

from starlette.datastructures import Headers
from starlette.requests import Request

from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.http.arguments import Depends
from relay_localcloud.http.exchange import exchange_of
from relay_localcloud.http.principal import Principal
from relay_localcloud.identity import organizations
from relay_localcloud.identity.credentials import KEY_PREFIX, LEGACY_KEY_PREFIX, RefusedKey, authenticate
from relay_localcloud.inference.errors import (
    ACCOUNT_SUSPENDED,
    ACCOUNT_UNAVAILABLE,
    EXPIRED_API_KEY,
    INSUFFICIENT_SCOPE,
    INVALID_API_KEY,
    MISSING_API_KEY,
    NOT_FOUND,
    REVOKED_API_KEY,
    InferenceError,
    Row,
)
from relay_localcloud.inference.funds import require_funds
from relay_localcloud.kernel.store import Tx

SCOPE: Final = "inference"
_PREFIXES: Final = (KEY_PREFIX, LEGACY_KEY_PREFIX)

_REFUSALS: Final[Mapping[str, Row]] = {
    "invalid": INVALID_API_KEY,
    "revoked": REVOKED_API_KEY,
    "expired": EXPIRED_API_KEY,
}


def credential(headers: Headers) -> str:
    """The API key of a request: the bearer token if it may be a key, else `x-api-key`. InferenceError 401."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    bearer = token.strip() if scheme.lower() == "bearer" else ""
    key = bearer if bearer.startswith(_PREFIXES) else headers.get("x-api-key", "").strip() or bearer
    if not key:
        raise InferenceError(
            *MISSING_API_KEY,
            "Send an API key in a header: Authorization: Bearer <API key>, or x-api-key: <API key>.",
        )
    if not key.startswith(_PREFIXES):
        raise InferenceError(*INVALID_API_KEY, "This is not an API key.")
    return key


def holder(tx: Tx, key: str) -> Principal:
    """The organization's principal for this API key; InferenceError 401."""
    try:
        return authenticate(tx, key)
    except RefusedKey as refused:
        raise InferenceError(*_REFUSALS[refused.reason], refused.message) from None


def require_standing(tx: Tx, organization_id: str) -> None:
    """InferenceError 403 if the organization is under review, or suspended for its balance."""
    match organizations.standing_of(tx, organization_id):
        case None:
            return
        case "review":
            raise InferenceError(*ACCOUNT_UNAVAILABLE, "This account is under review.")
        case _:
            raise InferenceError(*ACCOUNT_SUSPENDED, "This account is suspended for its balance: add funds.")


def _with_batch_access(tx: Tx, organization_id: str) -> None:
    if not organizations.organization(tx, organization_id)["batch_access"]:
        raise InferenceError(*NOT_FOUND, "This organization has no access to batches.")


def _caller(*conditions: Callable[[Tx, str], None]) -> Callable[[Request, CurrentCloud], Awaitable[Principal]]:
    """A dependency that admits the caller under these conditions, and reports the first that does not hold."""

    async def caller(request: Request, cloud: CurrentCloud) -> Principal:
        principal = exchange_of(request.scope).principal
        assert principal is not None  # Authentication has refused all others
        if SCOPE not in principal.scopes:
            raise InferenceError(*INSUFFICIENT_SCOPE, f"This needs a key with the scope {SCOPE}.")
        with cloud.store.transaction() as tx:
            for require in conditions:
                require(tx, principal.organization_id)
        return principal

    return caller


InferenceCaller = Annotated[Principal, Depends(_caller(require_standing))]
PayingCaller = Annotated[Principal, Depends(_caller(require_standing, require_funds))]
BatchCaller = Annotated[Principal, Depends(_caller(require_standing, _with_batch_access))]
PayingBatchCaller = Annotated[Principal, Depends(_caller(require_standing, _with_batch_access, require_funds))]
