"""An organization's quotas and their use (assumed)."""

from relay_localcloud.http.openapi import ASSUMED
from relay_localcloud.http.principal import OrganizationId, OrganizationReader
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel.store import Tx
from relay_localcloud.quotas import quotas
from relay_localcloud.quotas.quotas import Standing
from relay_wire.quotas import Quota, QuotaList

router = Router("Organizations")


@router.get("/v1/orgs/{orgId}/quotas", summary="Quotas", openapi_extra=ASSUMED)
def list_quotas(_: OrganizationReader, organization_id: OrganizationId, tx: Tx) -> QuotaList:
    """Answers `{items}`: each quota with its limit and how much of it is used. Needs no particular scope."""
    return QuotaList(items=[shown(standing) for standing in quotas.standings(tx, organization_id)])


def shown(standing: Standing) -> Quota:
    """A quota as the API shows it."""
    return Quota(name=standing.quota.name, limit=standing.limit, used=standing.used)
