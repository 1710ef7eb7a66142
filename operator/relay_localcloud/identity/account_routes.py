"""Who the caller is, and users' profiles (section 4, "Account and identity")."""

from relay_localcloud.http.bodies import Body, OptionalBody
from relay_localcloud.http.errors import ApiError
from relay_localcloud.http.principal import Anyone, SessionUser
from relay_localcloud.http.routing import Router
from relay_localcloud.identity import members, organizations, users
from relay_localcloud.kernel.store import Tx
from relay_wire.account import Bootstrap, Joined, Me, Membership, ProfileUpdate, User, Whoami
from relay_wire.orgs import OrganizationCreate

router = Router("Account and identity")

FIRST_ORGANIZATION = "My organization"


@router.get("/v1/whoami", summary="Who the caller is")
def whoami(caller: Anyone, tx: Tx) -> Whoami:
    """Needs no scope and works for every key (section 5, rule 5)."""
    name = organizations.name_of(tx, caller.organization_id)
    return Whoami(
        principal_type=caller.kind,
        organization_id=caller.organization_id,
        organization_name=name,
        scopes=list(caller.scopes),
    )


@router.post("/v1/onboarding/bootstrap", summary="Make the caller's profile and organization")
def bootstrap(user_id: SessionUser, body: OptionalBody[Bootstrap], tx: Tx) -> Joined:
    """Sessions only. Whoever owns an organization gets their first one, and nothing is made.

    One that somebody else owns does not count, since its admins add members without asking them.
    """
    users.change_profile(tx, user_id, {})
    own = members.first_owned(tx, user_id)
    if own is None:
        own = organizations.create(tx, OrganizationCreate(name=body.org_name or FIRST_ORGANIZATION), user_id)
    return Joined(organization_id=own, role="owner")


@router.get("/v1/me", summary="The person whose session this is")
def read_me(user_id: SessionUser, tx: Tx) -> Me:
    """Sessions only; memberships in the order in which they began."""
    return _me(tx, user_id)


@router.patch("/v1/me/profile", summary="Change the caller's profile")
def update_profile(user_id: SessionUser, body: Body[ProfileUpdate], tx: Tx) -> Me:
    """Sessions only. The default organization is where they act if a path names none; 403 unless it is the caller's."""
    values = {name: value or None for name, value in body.model_dump(by_alias=False, exclude_none=True).items()}
    default = values.get("default_organization_id")
    if default is not None and members.role_of(tx, user_id, default) is None:
        raise ApiError(403, "defaultOrganizationId: you do not belong to this organization.")
    users.change_profile(tx, user_id, values)
    return _me(tx, user_id)


def _me(tx: Tx, user_id: str) -> Me:
    return Me(
        user=User.model_validate(dict(users.profile(tx, user_id))),
        memberships=[Membership.model_validate(dict(row)) for row in members.memberships(tx, user_id)],
    )
