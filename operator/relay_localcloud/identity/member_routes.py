"""The people of an organization and their roles (section 4, "Organizations"); changes take an owner or admin."""

from typing import Annotated

from sqlalchemy import RowMapping
from starlette.responses import Response

from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.http.arguments import Path
from relay_localcloud.http.bodies import Body, answer, no_content
from relay_localcloud.http.principal import MemberReader, OrganizationId, OrganizationWriter
from relay_localcloud.http.routing import Router
from relay_localcloud.identity import members
from relay_localcloud.kernel.instants import timestamp
from relay_wire.base import Items
from relay_wire.orgs import Member, MemberAdd, MemberUpdate

router = Router("Organizations")

UserId = Annotated[str, Path("userId")]


@router.get("/v1/orgs/{orgId}/members", response_model=Items[Member], summary="List members")
async def list_members(caller: MemberReader, organization_id: OrganizationId, cloud: CurrentCloud) -> Response:
    """Answers `{items}` in the order in which they joined; every role may read it."""
    del caller
    with cloud.store.transaction() as tx:
        rows = members.every(tx, organization_id)
    return answer({"items": [_shown(row) for row in rows]})


@router.post("/v1/orgs/{orgId}/members/add", response_model=Member, summary="Add a member")
async def add_member(
    caller: OrganizationWriter,
    organization_id: OrganizationId,
    body: Body[MemberAdd],
    cloud: CurrentCloud,
) -> Response:
    """Takes the e-mail of somebody who has signed up, 404 otherwise; 409 for a member."""
    del caller
    with cloud.store.transaction() as tx:
        row = members.add(tx, organization_id, body.email, body.role)
    return answer(_shown(row))


@router.patch("/v1/orgs/{orgId}/members/{userId}", response_model=Member, summary="Change a member's role")
async def update_member(
    caller: OrganizationWriter,
    organization_id: OrganizationId,
    user_id: UserId,
    body: Body[MemberUpdate],
    cloud: CurrentCloud,
) -> Response:
    """Counts for sessions that are open, too. 409 for the last owner."""
    del caller
    with cloud.store.transaction() as tx:
        row = members.change_role(tx, organization_id, user_id, body.role)
    return answer(_shown(row))


@router.delete("/v1/orgs/{orgId}/members/{userId}", status_code=204, summary="Remove a member")
async def remove_member(
    caller: OrganizationWriter, organization_id: OrganizationId, user_id: UserId, cloud: CurrentCloud
) -> Response:
    """Counts for sessions that are open, too; keys stay, they are the organization's. 409 for the last owner."""
    del caller
    with cloud.store.transaction() as tx:
        members.remove(tx, organization_id, user_id)
    return no_content()


def _shown(row: RowMapping) -> Member:
    return Member.model_validate({**row, "joined_at": timestamp(row["joined_at"])})
