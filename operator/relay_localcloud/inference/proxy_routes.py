"""The OpenAI-style proxy, which is the inference API: its address, and its usage (shapes assumed)."""

from typing import Annotated, Final

from pydantic import Field

from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.http.arguments import Query
from relay_localcloud.http.principal import OrganizationId, ProxyReader
from relay_localcloud.http.routing import Router
from relay_localcloud.identity import credentials
from relay_localcloud.identity.api_key_routes import summary
from relay_localcloud.inference import charges
from relay_localcloud.inference.callers import SCOPE
from relay_localcloud.inference.charges import NOTHING
from relay_localcloud.kernel.store import Tx
from relay_wire.account import AiProxy, ProxyUsage

router = Router("Account and identity")

MOST_DAYS: Final = 365


@router.get("/v1/orgs/{orgId}/ai/proxy", response_model=AiProxy, summary="How to reach the AI proxy")
def read_proxy(caller: ProxyReader, organization_id: OrganizationId, cloud: CurrentCloud, tx: Tx) -> dict[str, object]:
    """Answers the base URL and the live keys with the scope `inference`; a key's plain text was shown at its create."""
    del caller
    keys = [row for row in credentials.live_keys(tx, organization_id) if SCOPE in row.scopes]
    return {"baseUrl": f"{cloud.inference_url}/v1", "keys": [summary(row) for row in keys]}


@router.get("/v1/orgs/{orgId}/ai/proxy-usage", response_model=ProxyUsage, summary="Daily usage of the AI proxy")
def read_proxy_usage(
    caller: ProxyReader,
    organization_id: OrganizationId,
    days: Annotated[int, Query(), Field(ge=1, le=MOST_DAYS, description="How many days, today included.")] = 30,
    *,
    tx: Tx,
) -> dict[str, object]:
    """Answers every day, also those without a request, and the totals; days begin at midnight UTC."""
    del caller
    items = charges.daily(tx, organization_id, days)
    totals = sum((used for _, used in items), NOTHING)
    return {"items": [{"date": date, **used.as_json()} for date, used in items], "totals": totals.as_json()}
