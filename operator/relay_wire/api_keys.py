"""API keys of an organization (section 2, "API key")."""

from relay_wire.base import Lenient, ListOf, NonEmpty, Page, Received, ResourceId, Sent, SentList, ShownOnce


class ApiKeyCreate(Sent):
    """Create API key request; the key never expires unless `expires_in_seconds` is greater than 0."""

    name: NonEmpty
    scopes: SentList[str] | None = None
    expires_in_seconds: int | None = None


class ApiKeyCreated(Received):
    """The answer to a create: the only one that shows the key in plain text."""

    id: ResourceId
    key: ShownOnce
    key_prefix: str
    name: str
    scopes: ListOf[str]
    created_at: str
    organization_id: str


class ApiKeySummary(Received):
    """An API key as lists show it."""

    id: ResourceId
    name: str
    key_prefix: str
    scopes: ListOf[str]
    created_at: str
    expires_at: Lenient[str] = None
    last_used_at: Lenient[str] = None
    revoked_at: Lenient[str] = None


ApiKeyList = Page[ApiKeySummary]
