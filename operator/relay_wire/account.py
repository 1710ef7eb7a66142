"""The caller's identity (sections 2 and 4, "Account and identity")."""

from typing import Annotated

from pydantic import Field

from relay_wire.api_keys import ApiKeySummary
from relay_wire.base import Identifier, Lenient, ListOf, Printable, Received, ResourceId, Sent
from relay_wire.orgs import OrganizationName


class Whoami(Received):
    """The organization and scopes of the key in use; `GET /v1/whoami` needs no scope (section 2, "API key")."""

    principal_type: str  # `api_key` for keys; `user` for sessions is assumed
    organization_id: ResourceId
    organization_name: Lenient[str] = None
    scopes: ListOf[str] = Field(default_factory=list)


class User(Received):
    """A person's profile (section 2, "Current user"); the last three fields are assumed, and absent until set."""

    id: Identifier
    email: Lenient[str] = None
    full_name: Lenient[str] = None
    avatar_url: Lenient[str] = None
    default_organization_id: Lenient[str] = None


class Membership(Received):
    """One organization that a person belongs to (section 2, "Current user")."""

    organization_id: Identifier
    role: str
    name: Lenient[str] = None


class Me(Received):
    """The answer of `GET /v1/me` (section 2, "Current user")."""

    user: User
    memberships: ListOf[Membership] = Field(default_factory=list)


class ProfileUpdate(Sent):
    """Profile update fields (section 2, "Current user"); the bounds are assumed. An empty string removes a value."""

    full_name: Annotated[str, Field(max_length=200), Printable] | None = None
    avatar_url: Annotated[str, Field(max_length=2048, pattern=r"^(https?://[^\s]+)?$"), Printable] | None = None
    default_organization_id: str | None = None


class Bootstrap(Sent):
    """Bootstrap request (section 2, "Current user"): the name of the first organization."""

    org_name: OrganizationName | None = None


class Joined(Received):
    """The result of a bootstrap and of an accepted invite (section 2)."""

    organization_id: Identifier
    role: str


class AiProxy(Received):
    """The address of the OpenAI-style proxy, and the keys that it accepts; the fields are assumed."""

    base_url: str  # the base URL for clients of that style
    keys: ListOf[ApiKeySummary]


class ProxyUsageTotals(Received):
    """Requests to the inference API, and their cost; the fields are assumed."""

    requests: int
    input_tokens: int
    output_tokens: int
    cost_nano_usd: int


class ProxyUsageDay(ProxyUsageTotals):
    """The same totals for one day."""

    date: str  # YYYY-MM-DD, in UTC


class ProxyUsage(Received):
    """Daily usage, the oldest day first, and the totals of these days."""

    items: ListOf[ProxyUsageDay]
    totals: ProxyUsageTotals
