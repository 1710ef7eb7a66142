"""Who may use the inference API, declared by an endpoint's first parameter, so that it comes before the body.

`InferenceReader`: a key with the scope `inference`, 403 otherwise. `InferenceCaller`: also an organization in good
standing, 403 otherwise. `PayingCaller`: also one with funds, 402 otherwise.
"""

from typing import Annotated

from starlette.requests import Request

from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.http.arguments import Depends
from relay_localcloud.http.exchange import exchange_of
from relay_localcloud.http.principal import Principal
from relay_localcloud.identity import organizations
from relay_localcloud.inference.charges import require_funds
from relay_localcloud.inference.errors import (
    ACCOUNT_SUSPENDED,
    ACCOUNT_UNAVAILABLE,
    INSUFFICIENT_SCOPE,
    InferenceError,
)
from relay_localcloud.kernel.store import Tx

SCOPE = "inference"


async def _reader(request: Request) -> Principal:
    return _in_scope(request)


async def _caller(request: Request, cloud: CurrentCloud) -> Principal:
    caller = _in_scope(request)
    with cloud.store.transaction() as tx:
        require_standing(tx, caller.organization_id)
    return caller


async def _payer(request: Request, cloud: CurrentCloud) -> Principal:
    caller = _in_scope(request)
    with cloud.store.transaction() as tx:
        require_standing(tx, caller.organization_id)
        require_funds(tx, caller.organization_id)
    return caller


InferenceReader = Annotated[Principal, Depends(_reader)]
InferenceCaller = Annotated[Principal, Depends(_caller)]
PayingCaller = Annotated[Principal, Depends(_payer)]


def require_standing(tx: Tx, organization_id: str) -> None:
    """Refuse with 403 while the organization is suspended for its balance, or under review (section 7)."""
    match organizations.standing_of(tx, organization_id):
        case None:
            return
        case "review":
            raise InferenceError(*ACCOUNT_UNAVAILABLE, "This account is under review.")
        case _:
            raise InferenceError(*ACCOUNT_SUSPENDED, "This account is suspended for its balance: add funds.")


def _in_scope(request: Request) -> Principal:
    principal = exchange_of(request.scope).principal
    assert principal is not None  # InferenceAuthentication let nobody else through
    if SCOPE not in principal.scopes:
        raise InferenceError(*INSUFFICIENT_SCOPE, f"This needs a key with the scope {SCOPE}.")
    return principal
