"""Organizations that bring machines in: how they apply, and how the platform decides (section 4, "Providers").

An organization has one application, the latest; how it is decided, and what comes of it, is assumed.
"""

from sqlalchemy import BigInteger, Column, ForeignKey, RowMapping, String, Table, Text, insert, select, update

from relay_localcloud.capacity import nodes
from relay_localcloud.http.errors import ApiError, not_found
from relay_localcloud.identity import organizations
from relay_localcloud.identity.notices import tell_owners
from relay_localcloud.kernel.schema import metadata
from relay_localcloud.kernel.store import Tx

applications = Table(
    "provider_applications",
    metadata,
    Column("organization_id", ForeignKey("organizations.id"), primary_key=True),
    Column("note", Text, nullable=False),
    Column("status", String, nullable=False),  # pending, approved, rejected
    Column("applied_at", BigInteger, nullable=False),
    Column("decided_at", BigInteger),
)


def apply(tx: Tx, organization_id: str, note: str) -> None:
    """Ask to become a provider; a pending application takes the later note. ApiError 409 for a provider."""
    if is_provider(tx, organization_id):
        raise ApiError(409, "This organization is a provider already.")
    made = application(tx, organization_id)
    if made is None:
        fresh = {"organization_id": organization_id, "note": note, "status": "pending", "applied_at": tx.now}
        tx.connection.execute(insert(applications), fresh)
    else:
        applied_at = made["applied_at"] if made["status"] == "pending" else tx.now
        _change(tx, organization_id, note=note, status="pending", applied_at=applied_at, decided_at=None)


def decide(tx: Tx, organization_id: str, *, admit: bool) -> None:
    """Make an organization a provider, or no longer one; that decides its application, and its owners hear of it."""
    was = is_provider(tx, organization_id)
    made = application(tx, organization_id)
    verdict = "approved" if admit else "rejected"
    is_news = made is not None and made["status"] != verdict
    if is_news:
        _change(tx, organization_id, status=verdict, decided_at=tx.now)
    if was != admit:
        organizations.change(tx, organization_id, {"provider": admit})
    if was != admit or is_news:
        _tell(tx, organization_id, was=was, admit=admit)


def application(tx: Tx, organization_id: str) -> RowMapping | None:
    """An organization's application, if it ever applied."""
    query = select(applications).where(applications.c.organization_id == organization_id)
    return tx.connection.execute(query).mappings().first()


def is_provider(tx: Tx, organization_id: str) -> bool:
    """Whether an organization may enrol nodes; ApiError 404 where there is none."""
    return bool(organizations.organization(tx, organization_id)["provider"])


def require_provider(tx: Tx, organization_id: str) -> None:
    """Refuses what only providers may do, with 403."""
    if not is_provider(tx, organization_id):
        path = f"POST /v1/orgs/{organization_id}/provider/apply"
        raise ApiError(403, f"This organization is no provider: {path} asks to become one.")


def owned_node(tx: Tx, organization_id: str, node_id: str) -> RowMapping:
    """A node that belongs to an organization, removed ones included; ApiError 404 for any other."""
    row = nodes.node_row(tx.connection, node_id)
    if row is None or nodes.owner_of(row) != organization_id:
        raise not_found("node", node_id)
    return row


def _change(tx: Tx, organization_id: str, **columns: object) -> None:
    of_organization = applications.c.organization_id == organization_id
    tx.connection.execute(update(applications).where(of_organization).values(**columns))


def _tell(tx: Tx, organization_id: str, *, was: bool, admit: bool) -> None:
    name = organizations.name_of(tx, organization_id)
    if admit:
        subject = f"{name} is a provider"
        body = f"POST /v1/orgs/{organization_id}/provider/tokens makes a provisioning token, which enrols nodes."
    elif was:
        subject = f"{name} is no longer a provider"
        body = "Its provisioning tokens enrol nothing any more; its nodes stay, and it may apply again."
    else:
        subject = f"{name} did not become a provider"
        body = "Its application was rejected; it may apply again."
    tell_owners(tx, organization_id, subject, body)
