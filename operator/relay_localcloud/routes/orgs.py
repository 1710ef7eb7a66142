"""Organizations (section 4, "Organizations")."""

from fastapi import APIRouter, Response

from relay_localcloud import organizations
from relay_localcloud.bodies import answer
from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.identity import Anyone, OrganizationId
from relay_localcloud.instants import timestamp
from relay_wire.base import Received

router = APIRouter(tags=["Organizations"])


class Organization(Received):
    """An organization; its fields are assumed, since section 2 does not show them."""

    id: str
    name: str
    slug: str | None = None
    billing_email: str | None = None
    created_at: str


@router.get("/v1/orgs/{orgId}", response_model=Organization, summary="An organization")
async def read_organization(caller: Anyone, organization_id: OrganizationId, cloud: CurrentCloud) -> Response:
    """Needs no scope, as whoami, which shows the same name."""
    del caller
    with cloud.store.transaction() as tx:
        row = organizations.organization(tx, organization_id)
    return answer(
        Organization(
            id=row["id"],
            name=row["name"],
            slug=row["slug"],
            billing_email=row["billing_email"],
            created_at=timestamp(row["created_at"]),
        )
    )
