"""Organizations, and the seeded one whose key the ready line shows."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import RowMapping, bindparam, insert, select, text, update

from relay_localcloud.http.errors import ApiError
from relay_localcloud.http.principal import SCOPES
from relay_localcloud.identity import credentials, members, users
from relay_localcloud.identity.credentials import KEY_PREFIX, SESSION_PREFIX
from relay_localcloud.kernel import tables
from relay_localcloud.kernel.prepared import Prepared
from relay_localcloud.kernel.store import Tx, read_meta, write_meta
from relay_localcloud.money import billing
from relay_wire.orgs import OrganizationCreate

SEEDED_NAME = "Local"
USUAL_BALANCE_CENTS = 100_000

_STANDING = Prepared(select(tables.organizations.c.suspended).where(tables.organizations.c.id == bindparam("of_id")))
_ADMINISTRATORS = Prepared(
    select(tables.organizations.c.id).where(text("administrator")).order_by(tables.organizations.c.id)
)
_NAME = Prepared(select(tables.organizations.c.name).where(tables.organizations.c.id == bindparam("of_id")))


@dataclass(frozen=True)
class Founded:
    """A new organization and the credentials of its owner."""

    organization_id: str
    api_key: str
    user_session_token: str
    user_id: str


def found(
    tx: Tx, name: str, balance_cents: int, scopes: Sequence[str] = SCOPES, announced: Founded | None = None
) -> Founded:
    """Create an organization with a balance, an owner, a key with these scopes, and a session of the owner.

    Ids and credentials are taken from `announced`, if it is given.
    """
    founded = announced or Founded(
        tx.new_id("org"), credentials.new_secret(KEY_PREFIX), credentials.new_secret(SESSION_PREFIX), tx.new_id("usr")
    )
    users.sign_up(tx, user_id=founded.user_id)
    create(tx, OrganizationCreate(name=name), founded.user_id, organization_id=founded.organization_id)
    billing.set_balance(tx, founded.organization_id, balance_cents)
    credentials.create_key(tx, founded.organization_id, "default", scopes, plaintext=founded.api_key)
    credentials.create_session(tx, founded.user_id, founded.organization_id, token=founded.user_session_token)
    return founded


def create(tx: Tx, wanted: OrganizationCreate, owner_id: str, *, organization_id: str | None = None) -> str:
    """Create an organization without funds whose owner is this user, and return its id.

    ApiError 409 for a taken slug, 403 if the user owns the maximum already.
    """
    taken = select(tables.organizations.c.id).where(tables.organizations.c.slug == wanted.slug)
    if wanted.slug is not None and tx.connection.execute(taken).first() is not None:
        raise ApiError(409, f"slug: {wanted.slug!r} is taken.")
    organization_id = organization_id or tx.new_id("org")
    values = {"id": organization_id, "created_at": tx.now, **wanted.model_dump(by_alias=False)}
    tx.connection.execute(insert(tables.organizations), values)
    billing.set_balance(tx, organization_id, 0)
    members.join(tx, organization_id, owner_id, "owner")
    return organization_id


def change(tx: Tx, organization_id: str, values: Mapping[str, object]) -> None:
    """Set these columns of an organization, and apply what follows from them."""
    if values:
        changed = update(tables.organizations).where(tables.organizations.c.id == organization_id)
        tx.connection.execute(changed.values(**values))
        billing.compare_with_floor(tx, organization_id)


def organization(tx: Tx, organization_id: str) -> RowMapping:
    """An organization's row; ApiError 404 if there is none."""
    query = select(tables.organizations).where(tables.organizations.c.id == organization_id)
    row = tx.connection.execute(query).mappings().first()
    if row is None:
        raise ApiError(404, f"There is no organization {organization_id!r}.")
    return row


def name_of(tx: Tx, organization_id: str) -> str:
    """An organization's name; ApiError 404 if there is none."""
    row = _NAME.run(tx.connection, of_id=organization_id).fetchone()
    if row is None:
        raise ApiError(404, f"There is no organization {organization_id!r}.")
    return str(row[0])


def standing_of(tx: Tx, organization_id: str) -> str | None:
    """Why an organization is suspended: "balance" or "review"; None if it is not."""
    row = _STANDING.run(tx.connection, of_id=organization_id).fetchone()
    return None if row is None else row[0]


def administrators(tx: Tx) -> list[str]:
    """The platform's own organizations."""
    return [row[0] for row in _ADMINISTRATORS.run(tx.connection).fetchall()]


def seed(tx: Tx, announced: Founded | None = None) -> tuple[Founded, bool]:
    """The seeded organization with a valid key and session, and whether it has just been created.

    Ids and credentials are taken from `announced`, if it is given.
    The key is stored in plain text, unlike all others, so that the ready line of the next start shows the same one.
    """
    kept = read_meta(tx.connection, "seed")
    founded = None if kept is None else Founded(**json.loads(kept))
    if founded is None or (announced is not None and announced.organization_id != founded.organization_id):
        founded = found(tx, SEEDED_NAME, USUAL_BALANCE_CENTS, announced=announced)
        _remember(tx, founded)
        return founded, True
    key = founded.api_key if announced is None else announced.api_key
    if not _works(tx, key):
        new = None if announced is None else key
        _, key = credentials.create_key(tx, founded.organization_id, "default", SCOPES, plaintext=new)
    said = None if announced is None else announced.user_session_token
    token = credentials.create_session(tx, founded.user_id, founded.organization_id, token=said)
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
