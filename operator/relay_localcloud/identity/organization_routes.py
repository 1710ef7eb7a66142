"""Organizations, their members and roles (section 4, "Organizations"); the control interface sends invites."""

from functools import partial
from typing import Annotated

from sqlalchemy import RowMapping
from starlette.requests import Request

from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.http.arguments import Depends, Path
from relay_localcloud.http.bodies import Answer, Body
from relay_localcloud.http.exchange import exchange_of
from relay_localcloud.http.openapi import ASSUMED
from relay_localcloud.http.pages import PageRequest
from relay_localcloud.http.principal import (
    ANY_SCOPE,
    MemberReader,
    OrganizationId,
    OrganizationWriter,
    Principal,
    SessionUser,
)
from relay_localcloud.http.routing import Router
from relay_localcloud.identity import grants, invites, members, organizations
from relay_localcloud.kernel.instants import timestamp
from relay_localcloud.kernel.store import Tx
from relay_wire.account import Joined
from relay_wire.base import Page
from relay_wire.orgs import Member, MemberAdd, MemberUpdate, Organization, OrganizationCreate, OrganizationUpdate

router = Router("Organizations")

UserId = Annotated[str, Path("userId")]


@router.post("/v1/orgs", summary="Create an organization")
def create_organization(user_id: SessionUser, body: Body[OrganizationCreate], tx: Tx) -> Organization:
    """Sessions only. The caller becomes owner; there are no funds and no key yet. 409 for a slug that is taken."""
    return _shown(organizations.organization(tx, organizations.create(tx, body, user_id)))


async def _reader(request: Request, organization_id: OrganizationId, cloud: CurrentCloud) -> Principal:
    """The caller; ApiError 404 for a session if there is no such organization, 403 for a key of another one."""
    caller = exchange_of(request.scope).principal
    assert caller is not None  # Authentication has refused all others
    if caller.kind == "user":
        with cloud.store.transaction() as tx:
            organizations.organization(tx, organization_id)
    return caller.check(ANY_SCOPE, organization_id)


@router.get("/v1/orgs/{orgId}", summary="An organization")
def read_organization(
    _: Annotated[Principal, Depends(_reader)], organization_id: OrganizationId, tx: Tx
) -> Organization:
    """Needs no particular scope."""
    return _shown(organizations.organization(tx, organization_id))


@router.patch("/v1/orgs/{orgId}", summary="Change an organization")
def update_organization(
    _: OrganizationWriter, organization_id: OrganizationId, body: Body[OrganizationUpdate], tx: Tx
) -> Organization:
    """Absent fields stay; `monthlySpendLimitCents` is assumed, null takes the limit away."""
    organizations.change(tx, organization_id, body.model_dump(by_alias=False, exclude_unset=True))
    return _shown(organizations.organization(tx, organization_id))


@router.get("/v1/orgs/{orgId}/members", response_model=Page[Member], summary="List members")
def list_members(_: MemberReader, organization_id: OrganizationId, page: PageRequest, tx: Tx) -> Answer:
    """Answers a page in the order in which they joined; every role may read it."""
    return page.oldest("members", organization_id, partial(members.after, tx, organization_id), _member)


@router.post("/v1/orgs/{orgId}/members/add", summary="Add a member")
def add_member(caller: OrganizationWriter, organization_id: OrganizationId, body: Body[MemberAdd], tx: Tx) -> Member:
    """Takes the e-mail of somebody who has signed up, else 404; 409 for a member, 403 to give more than one has."""
    grants.require_may_change(caller, organization_id, None, body.role)
    return _member(members.add(tx, organization_id, body.email, body.role))


@router.patch("/v1/orgs/{orgId}/members/{userId}", summary="Change a member's role")
def update_member(
    caller: OrganizationWriter, organization_id: OrganizationId, user_id: UserId, body: Body[MemberUpdate], tx: Tx
) -> Member:
    """Counts for open sessions, too. 409 for the last owner; other owners take an owner's session, else 403."""
    had = members.member(tx, organization_id, user_id)["role"]
    changed = members.change_role(tx, organization_id, user_id, body.role)  # first: the last owner is 409 to everybody
    grants.require_may_change(caller, organization_id, had, body.role)
    return _member(changed)


@router.delete("/v1/orgs/{orgId}/members/{userId}", summary="Remove a member")
def remove_member(caller: OrganizationWriter, organization_id: OrganizationId, user_id: UserId, tx: Tx) -> None:
    """Counts for sessions that are open, too; keys stay, they are the organization's. Owners as with PATCH."""
    had = members.member(tx, organization_id, user_id)["role"]
    members.remove(tx, organization_id, user_id)
    grants.require_may_change(caller, organization_id, had, None)


@router.post("/v1/invites/{token}/accept", summary="Accept an invite", openapi_extra=ASSUMED)
def accept_invite(user_id: SessionUser, token: Annotated[str, Path()], tx: Tx) -> Joined:
    """Sessions only. 410 for an invite that expired or was used, 409 for somebody who is a member already."""
    organization_id, role = invites.accept(tx, token, user_id)
    return Joined(organization_id=organization_id, role=role)


def _shown(row: RowMapping) -> Organization:
    return Organization.model_validate({**row, "created_at": timestamp(row["created_at"])})


def _member(row: RowMapping) -> Member:
    return Member.model_validate({**row, "joined_at": timestamp(row["joined_at"])})
