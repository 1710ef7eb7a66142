"""The members of an organization, and their roles (section 4, "Organizations").

An organization always has an owner: the last one can neither leave nor take another role.
"""

from collections.abc import Sequence

from sqlalchemy import (
    ColumnElement,
    Integer,
    RowMapping,
    Select,
    bindparam,
    delete,
    func,
    insert,
    literal_column,
    select,
    update,
)

from relay_localcloud.http.errors import ApiError, not_found
from relay_localcloud.http.principal import ADMINS
from relay_localcloud.identity import users
from relay_localcloud.kernel import tables
from relay_localcloud.kernel.prepared import Prepared
from relay_localcloud.kernel.store import Tx
from relay_localcloud.quotas import quotas
from relay_localcloud.quotas.quotas import QUOTA_EXCEEDED

MOST_OWNED = 100
"""Organizations that one user may own (assumed): each has its own quotas."""

_FIRST_COME: ColumnElement[int] = literal_column("members.rowid", Integer)
_ROLE = Prepared(
    select(tables.members.c.role).where(
        tables.members.c.organization_id == bindparam("of_organization"),
        tables.members.c.user_id == bindparam("of_user"),
    )
)


def join(tx: Tx, organization_id: str, user_id: str, role: str) -> None:
    """Make a user a member; ApiError 409 if they are one already, 403 beyond the quota, or beyond MOST_OWNED."""
    if role_of(tx, user_id, organization_id) is not None:
        raise ApiError(409, "This person is a member of the organization already.")
    if role == "owner":
        _require_may_own(tx, user_id)
    quotas.require(tx, organization_id, {quotas.MEMBERS: 1})
    member = {"organization_id": organization_id, "user_id": user_id, "role": role, "joined_at": tx.now}
    tx.connection.execute(insert(tables.members), member)


def add(tx: Tx, organization_id: str, email: str, role: str) -> RowMapping:
    """Make the user with this e-mail a member; ApiError 404 if there is none, 409 for one who is a member already."""
    user_id = users.by_email(tx, email)
    if user_id is None:
        raise ApiError(404, "Nobody with this e-mail has signed up.")
    join(tx, organization_id, user_id, role)
    return member(tx, organization_id, user_id)


def change_role(tx: Tx, organization_id: str, user_id: str, role: str) -> RowMapping:
    """Give a member another role.

    ApiError 404 if the user is not a member, 409 for the last owner, 403 for an owner beyond MOST_OWNED.
    """
    had = member(tx, organization_id, user_id)["role"]
    if had == "owner" != role:
        _require_another_owner(tx, organization_id, user_id)
    if had != "owner" == role:
        _require_may_own(tx, user_id)
    of_member = tables.members.c
    changed = update(tables.members).where(of_member.organization_id == organization_id, of_member.user_id == user_id)
    tx.connection.execute(changed.values(role=role))
    return member(tx, organization_id, user_id)


def remove(tx: Tx, organization_id: str, user_id: str) -> None:
    """End a membership; ApiError 404 if there is none, 409 for the last owner."""
    if member(tx, organization_id, user_id)["role"] == "owner":
        _require_another_owner(tx, organization_id, user_id)
    of_member, said = tables.members.c, tables.profiles.c
    gone = delete(tables.members).where(of_member.organization_id == organization_id, of_member.user_id == user_id)
    preferred = update(tables.profiles).where(said.user_id == user_id, said.default_organization_id == organization_id)
    tx.connection.execute(gone)
    tx.connection.execute(preferred.values(default_organization_id=None))


def member(tx: Tx, organization_id: str, user_id: str) -> RowMapping:
    """A member with e-mail and name; ApiError 404 if the user is not a member."""
    query = _members(organization_id).where(tables.members.c.user_id == user_id)
    row = tx.connection.execute(query).mappings().first()
    if row is None:
        raise not_found("member", user_id)
    return row


def after(tx: Tx, organization_id: str, place: int, count: int) -> list[tuple[int, RowMapping]]:
    """The first `count` members above a place in the order in which they joined, each with its own place."""
    query = _members(organization_id).where(place < _FIRST_COME).order_by(_FIRST_COME).limit(count)
    rows = tx.connection.execute(query.add_columns(_FIRST_COME.label("place"))).mappings()
    return [(row["place"], row) for row in rows]


def _members(organization_id: str) -> Select[tuple[str, str, str | None, str, int]]:
    of_member, user, said = tables.members.c, tables.users.c, tables.profiles.c
    return (
        select(of_member.user_id, user.email, said.full_name, of_member.role, of_member.joined_at)
        .join_from(tables.members, tables.users, of_member.user_id == user.id)
        .join(tables.profiles, said.user_id == user.id, isouter=True)
        .where(of_member.organization_id == organization_id)
    )


def memberships(tx: Tx, user_id: str) -> Sequence[RowMapping]:
    """The organizations of a user: id, name and role, in the order in which they joined."""
    of_member, organization = tables.members.c, tables.organizations.c
    query = (
        select(of_member.organization_id, of_member.role, organization.name)
        .join_from(tables.members, tables.organizations, of_member.organization_id == organization.id)
        .where(of_member.user_id == user_id)
        .order_by(_FIRST_COME)
    )
    return tx.connection.execute(query).mappings().all()


def owner_of(tx: Tx, organization_id: str) -> str:
    """The user id of the organization's first owner; ApiError 409 if an imported state has none."""
    of_member = tables.members.c
    query = select(of_member.user_id).where(of_member.organization_id == organization_id, of_member.role == "owner")
    user_id = tx.connection.execute(query.order_by(_FIRST_COME).limit(1)).scalar()
    if user_id is None:
        raise ApiError(409, f"The organization {organization_id!r} has no owner.")
    return str(user_id)


def role_of(tx: Tx, user_id: str, organization_id: str) -> str | None:
    """A user's role in an organization; None if the user is not a member."""
    row = _ROLE.run(tx.connection, of_user=user_id, of_organization=organization_id).fetchone()
    return None if row is None else str(row[0])


def first_owned(tx: Tx, user_id: str) -> str | None:
    """The organization that the user owned first; None if the user owns none."""
    return _first(tx, user_id, tables.members.c.role == "owner")


def administers(tx: Tx, user_id: str) -> bool:
    """Whether the user is an owner or admin anywhere."""
    return _first(tx, user_id, tables.members.c.role.in_(sorted(ADMINS))) is not None


def home_of(tx: Tx, user_id: str) -> str:
    """The organization that the user owned first, else the one that they joined first; empty if there is none."""
    return first_owned(tx, user_id) or _first(tx, user_id) or ""


def _first(tx: Tx, user_id: str, *which: ColumnElement[bool]) -> str | None:
    of_member = tables.members.c
    query = select(of_member.organization_id).where(of_member.user_id == user_id, *which)
    return tx.connection.execute(query.order_by(_FIRST_COME).limit(1)).scalar()


def _require_may_own(tx: Tx, user_id: str) -> None:
    of_member = tables.members.c
    query = select(func.count()).where(of_member.user_id == user_id, of_member.role == "owner")
    if tx.connection.execute(query).scalar_one() >= MOST_OWNED:
        raise ApiError(403, f"This user owns {MOST_OWNED} organizations, and nobody owns more.", QUOTA_EXCEEDED)


def _require_another_owner(tx: Tx, organization_id: str, user_id: str) -> None:
    of_member = tables.members.c
    others = select(func.count()).where(
        of_member.organization_id == organization_id, of_member.role == "owner", of_member.user_id != user_id
    )
    if tx.connection.execute(others).scalar_one() == 0:
        raise ApiError(409, "This is the organization's last owner: make somebody else an owner first.")
