"""Users: the people behind sessions, identified by e-mail, and their profiles."""

from collections.abc import Mapping

from sqlalchemy import RowMapping, insert, select
from sqlalchemy.dialects import sqlite

from relay_localcloud.kernel import tables
from relay_localcloud.kernel.store import Tx

_MAIL_DOMAIN = "example.test"


def sign_up(tx: Tx, email: str | None = None, *, user_id: str | None = None) -> str:
    """Create a user, with a generated address if none is given, and return the user's id."""
    user_id = user_id or tx.new_id("usr")
    address = f"{user_id}@{_MAIL_DOMAIN}" if email is None else email.lower()
    tx.connection.execute(insert(tables.users), {"id": user_id, "email": address, "created_at": tx.now})
    return user_id


def by_email(tx: Tx, email: str) -> str | None:
    """The id of the user with this e-mail, in any capitalization."""
    return tx.connection.execute(select(tables.users.c.id).where(tables.users.c.email == email.lower())).scalar()


def profile(tx: Tx, user_id: str) -> RowMapping:
    """A user's id, e-mail and profile; profile fields are null until they are set."""
    user, said = tables.users, tables.profiles.c
    query = select(user.c.id, user.c.email, said.full_name, said.avatar_url, said.default_organization_id)
    joined = query.join_from(user, tables.profiles, user.c.id == said.user_id, isouter=True)
    return tx.connection.execute(joined.where(user.c.id == user_id)).mappings().one()


def change_profile(tx: Tx, user_id: str, values: Mapping[str, str | None]) -> None:
    """Set these columns of a user's profile."""
    statement = sqlite.insert(tables.profiles).values(user_id=user_id, **values)
    if values:
        tx.connection.execute(statement.on_conflict_do_update(index_elements=["user_id"], set_=dict(values)))
    else:
        tx.connection.execute(statement.on_conflict_do_nothing())
