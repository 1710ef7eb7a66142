"""E-mails to the people of an organization."""

from sqlalchemy import select

from relay_localcloud.kernel import tables
from relay_localcloud.kernel.store import Tx


def tell_owners(tx: Tx, organization_id: str, subject: str, body: str) -> None:
    """E-mail an organization at its billing address; without one, at the addresses of its owners."""
    for address in _addresses(tx, organization_id):
        tx.email(organization_id, address, subject, body)


def _addresses(tx: Tx, organization_id: str) -> list[str]:
    organization, member, user = tables.organizations.c, tables.members.c, tables.users.c
    billing_email = tx.connection.execute(
        select(organization.billing_email).where(organization.id == organization_id)
    ).scalar()
    if billing_email:
        return [billing_email]
    query = (
        select(user.email)
        .join(tables.members, member.user_id == user.id)
        .where(member.organization_id == organization_id, member.role == "owner")
        .order_by(member.joined_at)
    )
    return list(tx.connection.execute(query).scalars())
