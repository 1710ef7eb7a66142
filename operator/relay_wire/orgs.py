"""Organizations and their members (section 2, "Organization and members"); all bounds are assumed."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from relay_wire.base import Identifier, Lenient, Page, Printable, Received, ResourceId, Sent, Whole

GivenRole = Literal["admin", "member", "viewer"]
"""The roles with which a person can be added or invited."""

Role = Literal["owner", "admin", "member", "viewer"]
"""Every role; the creator of an organization is its owner."""

OrganizationName = Annotated[str, Field(min_length=1, max_length=200), Printable]
Slug = Annotated[str, Field(max_length=63, pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
Email = Annotated[str, Field(max_length=254, pattern=r"^[^@\s]+@[^@\s]+$"), Printable]


class OrganizationCreate(Sent):
    """Create organization request."""

    name: OrganizationName
    slug: Slug | None = None
    billing_email: Email | None = None


class OrganizationUpdate(Sent):
    """Update organization request; `monthlySpendLimitCents` is assumed, and null in it removes the limit."""

    name: OrganizationName | None = None
    billing_email: Email | None = None
    monthly_spend_limit_cents: Annotated[int, Field(ge=0, le=10**15)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, data: object) -> object:
        if not isinstance(data, dict):
            return data
        return {key: value for key, value in data.items() if value is not None or key == "monthlySpendLimitCents"}


class Organization(Received):
    """An organization; its fields are assumed, since section 2 does not show them."""

    id: Identifier
    name: Lenient[str] = None
    slug: Lenient[str] = None
    billing_email: Lenient[str] = None
    monthly_spend_limit_cents: Lenient[Whole] = None
    created_at: Lenient[str] = None


class MemberAdd(Sent):
    """Add member request."""

    email: Email
    role: GivenRole


class MemberUpdate(Sent):
    """Update member role request."""

    role: Role


class Member(Received):
    """A person in an organization; the fields are assumed, since section 2 does not show them."""

    user_id: ResourceId
    email: Lenient[str] = None
    full_name: Lenient[str] = None
    role: str
    joined_at: Lenient[str] = None

    @property
    def id(self) -> str:
        """The id that requests for the member need."""
        return self.user_id

    @property
    def name(self) -> None:
        """None: members have no names."""
        return None


MemberList = Page[Member]
