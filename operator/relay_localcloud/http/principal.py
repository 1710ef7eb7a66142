"""Who calls, and what they may do (section 5; "Who may do what" in the settled details).

`Authentication` finds the caller of every request below `/v1` or answers 401. An endpoint declares its rule with one of
the aliases at the end, as its first parameter:

    async def create_pod(caller: VmWriter, body: ..., cloud: CurrentCloud) -> Response: ...

That checks scopes (keys) or the role (sessions), and that an `{orgId}` in the path is the caller's: 403 otherwise.
`Authentication` lets a session act in the organization of the path, or in its user's own if the path has none.
Where the path names a resource by its bare id, look it up and call `caller.admit(organization_id, "pod", id)`: 404
unless the caller's organization owns it, 403 if the role does not suffice. An operation on a person rather than an
organization takes `SessionUser` instead, which is the user's id; a key gets 403 there.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Final, Literal

from starlette.requests import Request

from relay_localcloud.http.arguments import Depends, Path
from relay_localcloud.http.errors import ApiError, not_found
from relay_localcloud.http.exchange import exchange_of

ROLES = frozenset({"owner", "admin", "member", "viewer"})
WORKERS = frozenset({"owner", "admin", "member"})
ADMINS = frozenset({"owner", "admin"})

SCOPES = (
    "clusters:read",
    "clusters:write",
    "vms:read",
    "vms:write",
    "inference",
    "billing:read",
    "org:write",
)
"""All scopes; `org:write` is assumed."""

SCOPES_OF_ROLE: Mapping[str, tuple[str, ...]] = {
    "viewer": ("clusters:read", "vms:read", "billing:read"),
    "member": tuple(scope for scope in SCOPES if scope != "org:write"),
    "admin": SCOPES,
    "owner": SCOPES,
}
"""The scopes that a session's role amounts to (assumed): whoami shows them, and they bound keys that it creates."""


@dataclass(frozen=True)
class Rule:
    """What an operation needs: one of these scopes of a key (if empty: any key), or one of these roles of a session."""

    scopes: frozenset[str]
    roles: frozenset[str]


ANYONE: Final = Rule(frozenset(), ROLES)
ANY_SCOPE: Final = Rule(frozenset(SCOPES), ROLES)
"""A key without scopes may nothing but whoami and the catalog."""


@dataclass(frozen=True)
class Principal:
    """A caller: an API key, or the session of a user with a role in each of their organizations."""

    kind: Literal["api_key", "user"]
    organization_id: str  # empty for a session whose user belongs to no organization
    scopes: tuple[str, ...]  # of a key: in the order in which it was given them
    user_id: str | None = None
    role_in: Callable[[str], str | None] = lambda _: None  # of a session: its role in an organization
    rule: Rule = ANYONE
    admitted: list[str] = field(default_factory=list)  # organizations whose resources it was given access to
    name: str = ""  # identifies the caller in logs: the prefix of a key, the id of a user
    expires_at: int | None = None  # of a key; None: never

    @property
    def rights(self) -> tuple[str, tuple[str, ...], str | None]:
        """Where the caller acts, with which scopes, and of a session the role there."""
        return self.organization_id, self.scopes, self.role_in(self.organization_id)

    def belongs_to(self, organization_id: str) -> bool:
        """Whether the caller belongs to that organization."""
        if self.kind == "api_key":
            return organization_id == self.organization_id
        return self.role_in(organization_id) is not None

    def acting_in(self, organization_id: str) -> "Principal":
        """A session with its role in this organization; a key, or a session of a non-member, unchanged."""
        role = self.role_in(organization_id)
        return self if role is None else replace(self, organization_id=organization_id, scopes=SCOPES_OF_ROLE[role])

    def holds(self, scope: str, organization_id: str) -> bool:
        """Whether the caller has a scope in that organization: a key by its scopes, a session by its role."""
        return scope in self.acting_in(organization_id).scopes

    def admit(self, organization_id: str, noun: str, identifier: str) -> None:
        """Allow access to a resource named by its bare id: ApiError 404 unless it is the caller's, 403 by role."""
        if not self.belongs_to(organization_id):
            raise not_found(noun, identifier)
        self.admitted.append(organization_id)
        if self.kind == "user":
            self.check_role(organization_id)

    def check(self, rule: Rule, organization_id: str | None) -> "Principal":
        """The caller acting under a rule, in this organization if one is given; ApiError 403 if the rule forbids it."""
        if not self.organization_id:
            raise ApiError(403, "You belong to no organization: POST /v1/onboarding/bootstrap makes your first one.")
        if organization_id is not None and not self.belongs_to(organization_id):
            named = {"api_key": "key", "user": "session"}[self.kind]
            raise ApiError(403, f"This {named} does not belong to the organization {organization_id!r}.")
        if organization_id is not None:
            self.admitted.append(organization_id)
        if self.kind == "api_key" and rule.scopes and rule.scopes.isdisjoint(self.scopes):
            raise ApiError(403, f"This needs a key with the scope {' or '.join(sorted(rule.scopes))}.")
        acting = replace(self, rule=rule)
        if self.kind == "user" and organization_id is not None:
            acting.check_role(organization_id)
        return acting

    def check_role(self, organization_id: str) -> None:
        """Raise ApiError 403 unless the rule allows a session's role in this organization."""
        role = self.role_in(organization_id)
        if role not in self.rule.roles:
            raise ApiError(403, f"A {role} may not do this; it takes one of: {', '.join(sorted(self.rule.roles))}.")


def require(*scopes: str, roles: frozenset[str] = ROLES, at_home: bool = False) -> Depends:
    """A dependency that checks the caller against this rule, and gives the endpoint the caller.

    `at_home` is for paths whose parameters name nothing that another organization could own: the role that counts is
    the one in the organization that the session acts in, as for paths without parameters.
    """
    rule = Rule(frozenset(scopes), roles)

    async def caller(request: Request) -> Principal:
        principal = exchange_of(request.scope).principal
        assert principal is not None  # Authentication has refused all others
        named = request.path_params.get("orgId")
        return principal.check(rule, principal.organization_id if at_home or not request.path_params else named)

    return Depends(caller)


async def _session_user(request: Request) -> str:
    principal = exchange_of(request.scope).principal
    assert principal is not None  # as above
    if principal.user_id is None:
        raise ApiError(403, "This takes a user session; an API key belongs to an organization, not to a person.")
    return principal.user_id


SessionUser = Annotated[str, Depends(_session_user)]

Anyone = Annotated[Principal, require()]
OrganizationReader = Annotated[Principal, require(*SCOPES)]
VmReader = Annotated[Principal, require("vms:read")]
VmWriter = Annotated[Principal, require("vms:write", roles=WORKERS)]
ClusterReader = Annotated[Principal, require("clusters:read")]
ClusterWriter = Annotated[Principal, require("clusters:write", roles=WORKERS)]
BillingReader = Annotated[Principal, require("billing:read")]
OrganizationWriter = Annotated[Principal, require("org:write", roles=ADMINS)]
CatalogWriter = Annotated[Principal, require("org:write", roles=ADMINS, at_home=True)]
ServingReader = Annotated[Principal, require("clusters:read", "org:write")]
MemberReader = Annotated[Principal, require("org:write")]
ProviderReader = Annotated[Principal, require("org:write")]
EarningsReader = Annotated[Principal, require("billing:read", "org:write")]
ProxyReader = Annotated[Principal, require("inference")]
# Webhooks, SSH keys, registry credentials, runner pools: an operator's only key has the scopes of its workloads.
ToolingReader = Annotated[Principal, require("clusters:write", "vms:write")]
ToolingWriter = Annotated[Principal, require("clusters:write", "vms:write", roles=WORKERS)]

OrganizationId = Annotated[str, Path("orgId")]
ResourceId = Annotated[str, Path("id")]
