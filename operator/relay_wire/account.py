"""Who the caller is (sections 2 and 4, "Account and identity")."""

from pydantic import Field

from relay_wire.base import Identifier, Lenient, ListOf, Received


class Whoami(Received):
    """The organization and scopes of the key in use; `GET /v1/whoami` needs no scope (section 2, "API key")."""

    principal_type: str  # `api_key` for keys; `user` for sessions is assumed
    organization_id: Identifier
    organization_name: Lenient[str] = None
    scopes: ListOf[str] = Field(default_factory=list)


class User(Received):
    """A person's profile (section 2, "Current user")."""

    id: Identifier
    email: Lenient[str] = None


class Membership(Received):
    """One organization that a person belongs to (section 2, "Current user")."""

    organization_id: Identifier
    role: str
    name: Lenient[str] = None


class Me(Received):
    """The answer of `GET /v1/me` (section 2, "Current user")."""

    user: User
    memberships: ListOf[Membership] = Field(default_factory=list)
