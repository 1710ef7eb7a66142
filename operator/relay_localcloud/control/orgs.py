"""`/_localcloud/orgs`, `/users`: new organizations and people, their credentials, and what the API cannot change."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field
from pydantic.alias_generators import to_camel

from relay_localcloud.http.bodies import Answer, ControlBody, ControlRequest, OptionalControlBody
from relay_localcloud.http.errors import ApiError
from relay_localcloud.http.principal import SCOPES, OrganizationId
from relay_localcloud.http.routing import Router
from relay_localcloud.identity import credentials, invites, members, organizations, users
from relay_localcloud.identity.credentials import LEGACY_KEY_PREFIX
from relay_localcloud.identity.invites import Invite
from relay_localcloud.kernel.store import Tx
from relay_localcloud.money import billing
from relay_localcloud.providers import applications
from relay_localcloud.quotas import quotas
from relay_localcloud.quotas import routes as quota_routes
from relay_localcloud.quotas.quotas import QUOTAS
from relay_wire.orgs import Email, GivenRole, OrganizationName, Role

router = Router()

_WITH_CONSEQUENCES = frozenset({"balance_cents", "credit_cents", "suspended", "provider", "quotas"})
WEEK_SECONDS = 7 * 24 * 3600
Cents = Annotated[int, Field(ge=-(10**15), le=10**15)]


def _standing(value: object) -> object:
    if isinstance(value, bool) or value in (None, "review"):
        return value
    raise ValueError('it must be true, false or "review"')


class FreshOrganization(ControlRequest):
    """A fresh organization; every scope and the cents of the seeded one unless it says otherwise."""

    name: OrganizationName
    balance_cents: Cents | None = None
    scopes: list[str] | None = None


class OrganizationChange(ControlRequest):
    """What to change; absent fields stay."""

    balance_cents: Cents | None = None
    credit_cents: Cents | None = None
    """Added to the balance; a negative amount is debited."""
    suspended: Annotated[bool | Literal["review"] | None, BeforeValidator(_standing)] = None
    infiniband: bool | None = None
    provider: bool | None = None
    administrator: bool | None = None
    batch_access: bool | None = None
    deposit_cap_cents: Annotated[int, Field(ge=0, le=10**15)] | None = None
    auto_stop_floor_cents: Cents | None = None
    monthly_spend_limit_cents: Annotated[int, Field(ge=0, le=10**15)] | None = None
    quotas: dict[str, Annotated[int, Field(ge=0, le=10**15)] | None] | None = None
    """By name; null restores the default limit."""


class SessionCreate(ControlRequest):
    """A session of the owner, or of a new member if a role is given."""

    role: Role | None = None


class InviteCreate(ControlRequest):
    """An invite, for a week unless it says otherwise; one for 0 seconds has expired when it arrives."""

    email: Email
    role: GivenRole
    expires_in_seconds: Annotated[int, Field(ge=0, le=10**10)] | None = None


class SignIn(ControlRequest):
    """The user who signs in; without an e-mail, a new user with another address each time."""

    email: Email | None = None


@router.post("/orgs", summary="Make a fresh organization")
def create_organization(body: ControlBody[FreshOrganization], tx: Tx) -> Answer:
    """Answers `{organizationId, apiKey, userSessionToken, userId}`."""
    scopes = SCOPES if body.scopes is None else tuple(dict.fromkeys(body.scopes))
    unknown = sorted(set(scopes) - set(SCOPES))
    if unknown:
        raise ApiError(400, f"scopes: there is no scope {unknown[0]!r}; there are {', '.join(SCOPES)}.")
    balance_cents = organizations.USUAL_BALANCE_CENTS if body.balance_cents is None else body.balance_cents
    founded = organizations.found(tx, body.name, balance_cents, scopes)
    return {
        "organizationId": founded.organization_id,
        "apiKey": founded.api_key,
        "userSessionToken": founded.user_session_token,
        "userId": founded.user_id,
    }


@router.patch("/orgs/{orgId}", summary="Change what no API call can")
def change_organization(organization_id: OrganizationId, body: ControlBody[OrganizationChange], tx: Tx) -> Answer:
    """Answers the organization with everything that can be changed here, but for its balance."""
    organizations.organization(tx, organization_id)
    if body.balance_cents is not None and body.credit_cents is not None:
        raise ApiError(400, "Give either balanceCents or creditCents, not both.")
    values = {name: getattr(body, name) for name in body.model_fields_set - _WITH_CONSEQUENCES}
    nullable = {"monthly_spend_limit_cents"}
    values = {name: value for name, value in values.items() if value is not None or name in nullable}
    if body.suspended is not None:
        values["suspended"] = {True: "balance", False: None, "review": "review"}[body.suspended]
    organizations.change(tx, organization_id, values)
    if body.provider is not None:
        applications.decide(tx, organization_id, admit=body.provider)
    if body.balance_cents is not None:
        billing.set_balance(tx, organization_id, body.balance_cents)
    if body.credit_cents:
        billing.post(tx, organization_id, "credit", body.credit_cents, "Credited through the control interface")
    _set_quotas(tx, organization_id, body.quotas or {})
    return _shown(tx, organization_id)


@router.get("/orgs/{orgId}/quotas", summary="What an organization may have, and what it has")
def list_quotas(organization_id: OrganizationId, tx: Tx) -> Answer:
    """Answers `{items: [{name, limit, used}]}`; `PATCH /orgs/{orgId} {quotas: {name: limit}}` sets them."""
    organizations.organization(tx, organization_id)
    return {"items": [quota_routes.shown(standing) for standing in quotas.standings(tx, organization_id)]}


@router.post("/orgs/{orgId}/legacy-key", summary="Make a key with the legacy prefix")
def create_legacy_key(organization_id: OrganizationId, tx: Tx) -> Answer:
    """Answers `{apiKey}` with a `vl_` key of every scope."""
    organizations.organization(tx, organization_id)
    _, key = credentials.create_key(tx, organization_id, "legacy", SCOPES, prefix=LEGACY_KEY_PREFIX)
    return {"apiKey": key}


@router.post("/orgs/{orgId}/session", summary="Open a user session")
def create_session(organization_id: OrganizationId, body: OptionalControlBody[SessionCreate], tx: Tx) -> Answer:
    """Answers `{userSessionToken, userId}`: the owner's, or a new member's with the role given."""
    organizations.organization(tx, organization_id)
    if body.role is None:
        user_id = members.owner_of(tx, organization_id)
    else:
        user_id = users.sign_up(tx)
        members.join(tx, organization_id, user_id, body.role)
    token = credentials.create_session(tx, user_id, organization_id)
    return {"userSessionToken": token, "userId": user_id}


@router.post("/orgs/{orgId}/invites", summary="Invite somebody")
def create_invite(organization_id: OrganizationId, body: ControlBody[InviteCreate], tx: Tx) -> Answer:
    """Answers `{token}`, which the outbox has in an e-mail; `POST /v1/invites/{token}/accept` takes it."""
    lives = WEEK_SECONDS if body.expires_in_seconds is None else body.expires_in_seconds
    token = invites.send(tx, organization_id, Invite(body.email, body.role, lives))
    return {"token": token}


@router.post("/users", summary="Sign somebody up or in")
def sign_in(body: OptionalControlBody[SignIn], tx: Tx) -> Answer:
    """Answers `{userId, email, userSessionToken}` of the user with this e-mail; creates the user if there is none."""
    known = None if body.email is None else users.by_email(tx, body.email)
    user_id = known or users.sign_up(tx, body.email)
    token = credentials.create_session(tx, user_id)
    email = users.profile(tx, user_id)["email"]
    return {"userId": user_id, "email": email, "userSessionToken": token}


def _set_quotas(tx: Tx, organization_id: str, limits: Mapping[str, int | None]) -> None:
    known = [quota.name for quota in QUOTAS]
    unknown = sorted(limits.keys() - set(known))
    if unknown:
        raise ApiError(400, f"quotas: there is no quota {unknown[0]!r}; there are {', '.join(known)}.")
    quotas.set_limits(tx, organization_id, limits)


def _shown(tx: Tx, organization_id: str) -> dict[str, object]:
    row = organizations.organization(tx, organization_id)
    fields = ("suspended", "infiniband", "provider", "administrator", "batch_access", "deposit_cap_cents")
    shown = {to_camel(name): row[name] for name in (*fields, "auto_stop_floor_cents", "monthly_spend_limit_cents")}
    shown["suspended"] = {None: False, "balance": True}.get(row["suspended"], row["suspended"])
    return {"organizationId": organization_id, "name": row["name"], **shown}
