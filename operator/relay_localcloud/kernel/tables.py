"""Tables of the core, and those that rooms below identity use; all others are beside their rules (`rows.py`)."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
    UniqueConstraint,
    literal_column,
    text,
)

from relay_localcloud.kernel.schema import metadata

FIRST_COME: ColumnElement[int] = literal_column("rowid", Integer)
"""Sorts a table without a sequence column in the order of insertion, also within one instant of a frozen clock."""

meta = Table(
    "meta",
    metadata,
    Column("name", String, primary_key=True),
    Column("value", Text, nullable=False),
)
"""Single facts: the clock (`clock`), the settings (`settings`), the seeded organization (`seed`); values are JSON."""

due = Table(
    "due",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("due_at", BigInteger, nullable=False),
    Column("kind", String, nullable=False),
    Column("subject", String, nullable=False),
    Column("lane", String),  # null: a transition; otherwise what an outbound item shares limits with, such as a webhook
    Column("payload", Text, nullable=False),
    UniqueConstraint("kind", "subject"),
    Index("due_order", "lane", "due_at", "id"),
    Index("due_calls", "lane", sqlite_where=text("lane IS NOT NULL")),
    sqlite_autoincrement=True,  # the id of an item under way is never reused
)

organizations = Table(
    "organizations",
    metadata,
    Column("id", String, primary_key=True),
    Column("name", String, nullable=False),
    Column("slug", String),
    Column("billing_email", String),
    Column("created_at", BigInteger, nullable=False),
    Column("suspended", String),  # null, "balance" or "review"
    Column("infiniband", Boolean, nullable=False, default=False),
    Column("provider", Boolean, nullable=False, default=False),
    Column("administrator", Boolean, nullable=False, default=False),  # its models are shared with everybody
    Column("batch_access", Boolean, nullable=False, default=True),
    Column("deposit_cap_cents", BigInteger, nullable=False, default=50_000),
    Column("auto_stop_floor_cents", BigInteger, nullable=False, default=0),
    Column("monthly_spend_limit_cents", BigInteger),
    Index("administrators", "id", sqlite_where=text("administrator")),
)

users = Table(
    "users",
    metadata,
    Column("id", String, primary_key=True),
    Column("email", String, nullable=False, unique=True),  # in lowercase
    Column("created_at", BigInteger, nullable=False),
)

members = Table(
    "members",
    metadata,
    Column("organization_id", ForeignKey("organizations.id"), primary_key=True),
    Column("user_id", ForeignKey("users.id"), primary_key=True),
    Column("role", String, nullable=False),
    Column("joined_at", BigInteger, nullable=False),
    Index("members_of_user", "user_id"),
)

profiles = Table(
    "profiles",
    metadata,
    Column("user_id", ForeignKey("users.id"), primary_key=True),
    Column("full_name", String),
    Column("avatar_url", Text),
    Column("default_organization_id", String),
)
"""What users enter about themselves; a user who never did has no row."""

invites = Table(
    "invites",
    metadata,
    Column("digest", String, primary_key=True),  # SHA-256 of the token
    Column("organization_id", ForeignKey("organizations.id"), nullable=False),
    Column("email", String, nullable=False),
    Column("role", String, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("accepted_at", BigInteger),
)

sessions = Table(
    "sessions",
    metadata,
    Column("digest", String, primary_key=True),  # SHA-256 of the token
    Column("user_id", ForeignKey("users.id"), nullable=False),
    Column("organization_id", String, nullable=False),  # where it acts; empty: in the first organization of its user
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Index("sessions_of_user", "user_id"),
    Index("expiring_sessions", "expires_at"),
)

outbox = Table(
    "outbox",
    metadata,
    Column("sequence", Integer, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("organization_id", String, nullable=False),
    Column("recipient", String, nullable=False),
    Column("subject", Text, nullable=False),
    Column("body", Text, nullable=False),
    Index("outbox_of_organization", "organization_id", "sequence"),
)
