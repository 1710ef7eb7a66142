"""The price that a create locks: the catalog's, unless the fault `priceFactor` changes it."""

from typing import Annotated

from starlette.requests import Request

from relay_localcloud.http.arguments import Depends
from relay_localcloud.http.exchange import exchange_of

QUOTED = frozenset(
    {
        "POST /v1/pods",
        "POST /v1/orgs/{orgId}/vms/create",
        "POST /v1/orgs/{orgId}/clusters/create",
        "POST /v1/serving/deployments",
    }
)
"""The operations that lock a price."""


async def _factor(request: Request) -> float:
    return exchange_of(request.scope).price_factor


PriceFactor = Annotated[float, Depends(_factor)]
"""A parameter of an endpoint: 1, or the factor of a fault."""


def locked(quote_cents: int, factor: float) -> int:
    """The cents per hour that the record shows and that are billed, for a price in the catalog."""
    return round(quote_cents * factor)
