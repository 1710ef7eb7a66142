"""Organizations, their users and roles, and the seeded one whose key the ready line shows."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import RowMapping, bindparam, insert, select

from relay_localcloud import billing, credentials, tables
from relay_localcloud.errors import ApiError
from relay_localcloud.identity import SCOPES
from relay_localcloud.prepared import Prepared
from relay_localcloud.store import Tx, read_meta, write_meta

SEEDED_NAME = "Local"
USUAL_BALANCE_CENTS = 100_000

_STANDING = Prepared(select(tables.organizations.c.suspended).where(tables.organizations.c.id == bindparam("of_id")))
_NAME = Prepared(select(tables.organizations.c.name).where(tables.organizations.c.id == bindparam("of_id")))


@dataclass(frozen=True)
class Founded:
    """A fresh organization and the credentials of its owner."""

    organization_id: str
    api_key: str
    user_session_token: str
    user_id: str


def found(tx: Tx, name: str, balance_cents: int, scopes: Sequence[str] = SCOPES) -> Founded:
    """Make an organization with its account, an owner, a key with these scopes, and a session of the owner."""
    organization_id = tx.new_id("org")
    tx.connection.execute(insert(tables.organizations), {"id": organization_id, "name": name, "created_at": tx.now})
    billing.set_balance(tx, organization_id, balance_cents)
    user_id = add_member(tx, organization_id, "owner")
    key = credentials.create_key(tx, organization_id, "default", scopes)
    token = credentials.create_session(tx, user_id, organization_id)
    return Founded(organization_id, key.plaintext, token, user_id)


def add_member(tx: Tx, organization_id: str, role: str) -> str:
    """Make a user with a role in an organization, and return the user's id."""
    user_id = tx.new_id("usr")
    tx.connection.execute(
        insert(tables.users), {"id": user_id, "email": f"{user_id}@example.test", "created_at": tx.now}
    )
    member = {"organization_id": organization_id, "user_id": user_id, "role": role, "joined_at": tx.now}
    tx.connection.execute(insert(tables.members), member)
    return user_id


def owner_of(tx: Tx, organization_id: str) -> str:
    """The user id of the organization's first owner; ApiError 409 where it has none."""
    member = tables.members.c
    query = select(member.user_id).where(member.organization_id == organization_id, member.role == "owner")
    user_id = tx.connection.execute(query.order_by(member.joined_at, member.user_id).limit(1)).scalar()
    if user_id is None:
        raise ApiError(409, f"The organization {organization_id!r} has no owner.")
    return str(user_id)


def organization(tx: Tx, organization_id: str) -> RowMapping:
    """An organization's row; ApiError 404 where there is none."""
    query = select(tables.organizations).where(tables.organizations.c.id == organization_id)
    row = tx.connection.execute(query).mappings().first()
    if row is None:
        raise ApiError(404, f"There is no organization {organization_id!r}.")
    return row


def name_of(tx: Tx, organization_id: str) -> str:
    """An organization's name; ApiError 404 where there is none."""
    row = _NAME.run(tx.connection, of_id=organization_id).fetchone()
    if row is None:
        raise ApiError(404, f"There is no organization {organization_id!r}.")
    return str(row[0])


def standing_of(tx: Tx, organization_id: str) -> str | None:
    """Why an organization is suspended: "balance" or "review"; None where it is not."""
    row = _STANDING.run(tx.connection, of_id=organization_id).fetchone()
    return None if row is None else row[0]


def seed(tx: Tx) -> tuple[Founded, bool]:
    """The seeded organization with a key and a session that work, and whether it was made just now.

    The key is kept in plain text, unlike all others, so that the ready line of the next start shows the same one.
    """
    kept = read_meta(tx.connection, "seed")
    if kept is None:
        founded = found(tx, SEEDED_NAME, USUAL_BALANCE_CENTS)
        _remember(tx, founded)
        return founded, True
    founded = Founded(**json.loads(kept))
    key = founded.api_key
    if not _works(tx, key):
        key = credentials.create_key(tx, founded.organization_id, "default", SCOPES).plaintext
    token = credentials.create_session(tx, founded.user_id, founded.organization_id)
    founded = Founded(founded.organization_id, key, token, founded.user_id)
    _remember(tx, founded)
    return founded, False


def _remember(tx: Tx, founded: Founded) -> None:
    write_meta(tx.connection, "seed", json.dumps(vars(founded)))


def _works(tx: Tx, key: str) -> bool:
    try:
        credentials.authenticate(tx, key)
    except ApiError:
        return False
    return True
