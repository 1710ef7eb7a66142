"""The people of an organization and their roles (section 4, "Organizations"); changes take an owner or admin."""

from typing import Annotated

from sqlalchemy import RowMapping

from relay_localcloud.http.arguments import Path
from relay_localcloud.http.bodies import Answer, Body
from relay_localcloud.http.principal import MemberReader, OrganizationId, OrganizationWriter
from relay_localcloud.http.routing import Router
from relay_localcloud.identity import members
from relay_localcloud.kernel.instants import timestamp
from relay_localcloud.kernel.store import Tx
from relay_wire.base import Items
from relay_wire.orgs import Member, MemberAdd, MemberUpdate

router = Router("Organizations")

UserId = Annotated[str, Path("userId")]


@router.get("/v1/orgs/{orgId}/members", response_model=Items[Member], summary="List members")
def list_members(_: MemberReader, organization_id: OrganizationId, tx: Tx) -> Answer:
    """Answers `{items}` in the order in which they joined; every role may read it."""
    return {"items": [_shown(row) for row in members.every(tx, organization_id)]}


@router.post("/v1/orgs/{orgId}/members/add", summary="Add a member")
def add_member(_: OrganizationWriter, organization_id: OrganizationId, body: Body[MemberAdd], tx: Tx) -> Member:
    """Takes the e-mail of somebody who has signed up, 404 otherwise; 409 for a member."""
    return _shown(members.add(tx, organization_id, body.email, body.role))


@router.patch("/v1/orgs/{orgId}/members/{userId}", summary="Change a member's role")
def update_member(
    _: OrganizationWriter, organization_id: OrganizationId, user_id: UserId, body: Body[MemberUpdate], tx: Tx
) -> Member:
    """Counts for sessions that are open, too. 409 for the last owner."""
    return _shown(members.change_role(tx, organization_id, user_id, body.role))


@router.delete("/v1/orgs/{orgId}/members/{userId}", summary="Remove a member")
def remove_member(_: OrganizationWriter, organization_id: OrganizationId, user_id: UserId, tx: Tx) -> None:
    """Counts for sessions that are open, too; keys stay, they are the organization's. 409 for the last owner."""
    members.remove(tx, organization_id, user_id)


def _shown(row: RowMapping) -> Member:
    return Member.model_validate({**row, "joined_at": timestamp(row["joined_at"])})
