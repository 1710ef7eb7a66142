"""Organizations (section 4, "Organizations")."""

from typing import Annotated

from sqlalchemy import RowMapping
from starlette.requests import Request

from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.http.arguments import Depends
from relay_localcloud.http.bodies import Body
from relay_localcloud.http.exchange import exchange_of
from relay_localcloud.http.principal import ANYONE, OrganizationId, OrganizationWriter, Principal, SessionUser, require
from relay_localcloud.http.routing import Router
from relay_localcloud.identity import organizations
from relay_localcloud.kernel.instants import timestamp
from relay_localcloud.kernel.store import Tx
from relay_wire.orgs import Organization, OrganizationCreate, OrganizationUpdate

router = Router("Organizations")


@router.post("/v1/orgs", summary="Create an organization")
def create_organization(user_id: SessionUser, body: Body[OrganizationCreate], tx: Tx) -> Organization:
    """Sessions only. The caller becomes owner; there are no funds and no key yet. 409 for a slug that is taken."""
    return _shown(organizations.organization(tx, organizations.create(tx, body, user_id)))


async def _reader(request: Request, organization_id: OrganizationId, cloud: CurrentCloud) -> Principal:
    """ApiError 404 for a session that asks for an organization that is none; a key is of another one then: 403."""
    caller = exchange_of(request.scope).principal
    if caller is not None and caller.kind == "user":
        with cloud.store.transaction() as tx:
            organizations.organization(tx, organization_id)
    return await require(ANYONE)(request)


@router.get("/v1/orgs/{orgId}", summary="An organization")
def read_organization(
    _: Annotated[Principal, Depends(_reader)], organization_id: OrganizationId, tx: Tx
) -> Organization:
    """Needs no scope, as whoami, which shows the same name."""
    return _shown(organizations.organization(tx, organization_id))


@router.patch("/v1/orgs/{orgId}", summary="Change an organization")
def update_organization(
    _: OrganizationWriter, organization_id: OrganizationId, body: Body[OrganizationUpdate], tx: Tx
) -> Organization:
    """Absent fields stay; `monthlySpendLimitCents` is assumed, null takes the limit away."""
    organizations.change(tx, organization_id, body.model_dump(by_alias=False, exclude_unset=True))
    return _shown(organizations.organization(tx, organization_id))


def _shown(row: RowMapping) -> Organization:
    return Organization.model_validate({**row, "created_at": timestamp(row["created_at"])})
