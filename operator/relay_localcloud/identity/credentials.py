"""API keys and user sessions: made, found again, revoked. Only digests are kept (section 5)."""

import hashlib
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import RowMapping, bindparam, insert, or_, select, update

from relay_localcloud.http.errors import ApiError
from relay_localcloud.http.principal import Principal
from relay_localcloud.identity import members, users
from relay_localcloud.kernel import tables
from relay_localcloud.kernel.instants import DAY, LAST, MINUTE, SECOND
from relay_localcloud.kernel.prepared import Prepared
from relay_localcloud.kernel.store import Tx

KEY_PREFIX = "or_"
LEGACY_KEY_PREFIX = "vl_"  # earlier-issued keys still authenticate (section 5, rule 2)
SESSION_PREFIX = "ust_"
SESSION_LIFE = DAY

_SHOWN = 11  # the prefix and 8 characters, which say nothing about the other 40
_USE_IS_WRITTEN_EVERY = MINUTE

_FIND_KEY = Prepared(
    select(
        tables.api_keys.c.id,
        tables.api_keys.c.organization_id,
        tables.api_keys.c.scopes,
        tables.api_keys.c.expires_at,
        tables.api_keys.c.last_used_at,
        tables.api_keys.c.revoked_at,
    ).where(tables.api_keys.c.digest == bindparam("digest"))
)


@dataclass(frozen=True)
class NewKey:
    """A key that was just made; nothing else ever has its plain text."""

    id: str
    plaintext: str
    prefix: str
    expires_at: int | None


class RefusedKey(ApiError):
    """401 for an API key, and why."""

    def __init__(self, reason: Literal["invalid", "revoked", "expired"], message: str) -> None:
        super().__init__(401, message)
        self.reason = reason


def new_secret(prefix: str) -> str:
    """A fresh secret of 48 hexadecimal digits after its prefix."""
    return prefix + secrets.token_hex(24)


def create_key(
    tx: Tx,
    organization_id: str,
    name: str,
    scopes: Sequence[str],
    expires_in_seconds: int | None = None,
    prefix: str = KEY_PREFIX,
    *,
    plaintext: str | None = None,
) -> NewKey:
    """Make an API key; `expires_in_seconds` absent or not above 0 means that it never expires (section 2)."""
    plaintext = plaintext or new_secret(prefix)
    lives = expires_in_seconds if expires_in_seconds is not None and expires_in_seconds > 0 else None
    expires_at = None if lives is None else min(tx.now + lives * SECOND, LAST)
    key = NewKey(tx.new_id("key"), plaintext, plaintext[:_SHOWN], expires_at)
    values = {
        "id": key.id,
        "organization_id": organization_id,
        "name": name,
        "key_prefix": key.prefix,
        "digest": digest(plaintext),
        "scopes": json.dumps(list(scopes)),
        "created_at": tx.now,
        "expires_at": expires_at,
    }
    tx.connection.execute(insert(tables.api_keys), values)
    return key


def live_keys(tx: Tx, organization_id: str) -> list[RowMapping]:
    """The organization's keys that authenticate now, oldest first."""
    key = tables.api_keys.c
    query = select(tables.api_keys).where(
        key.organization_id == organization_id,
        key.revoked_at.is_(None),
        or_(key.expires_at.is_(None), key.expires_at > tx.now),
    )
    return list(tx.connection.execute(query.order_by(tables.FIRST_COME)).mappings())


def scopes_of(row: RowMapping) -> list[str]:
    """The scopes of a key."""
    scopes: list[str] = json.loads(row["scopes"])
    return scopes


def create_session(tx: Tx, user_id: str, organization_id: str = "", *, token: str | None = None) -> str:
    """Open a user session, which lasts 24 hours of the cloud's clock (assumed), and return its token.

    Wherever a path names no organization it acts in the user's default one, else in `organization_id`, else in the one
    that the user joined first; never in one that the user does not belong to.
    """
    token = token or new_secret(SESSION_PREFIX)
    values = {
        "digest": digest(token),
        "user_id": user_id,
        "organization_id": organization_id,
        "created_at": tx.now,
        "expires_at": tx.now + SESSION_LIFE,
    }
    tx.connection.execute(insert(tables.sessions), values)
    return token


def authenticate(tx: Tx, credential: str) -> Principal:
    """Who this key or session token belongs to; ApiError 401 where it is invalid, revoked or expired (section 5)."""
    if credential.startswith((KEY_PREFIX, LEGACY_KEY_PREFIX)):
        return _key_holder(tx, credential)
    return _session_user(tx, credential)


def _key_holder(tx: Tx, credential: str) -> Principal:
    key = _FIND_KEY.run(tx.connection, digest=digest(credential)).fetchone()
    if key is None:
        raise RefusedKey("invalid", "This API key is not valid.")
    key_id, organization_id, scopes, expires_at, last_used_at, revoked_at = key
    if revoked_at is not None:
        raise RefusedKey("revoked", "This API key was revoked.")
    if expires_at is not None and expires_at <= tx.now:
        raise RefusedKey("expired", "This API key has expired.")
    if last_used_at is None or tx.now - last_used_at >= _USE_IS_WRITTEN_EVERY:
        used = update(tables.api_keys).where(tables.api_keys.c.id == key_id).values(last_used_at=tx.now)
        tx.connection.execute(used)
    return Principal("api_key", organization_id, frozenset(json.loads(scopes)))


def _session_user(tx: Tx, credential: str) -> Principal:
    query = select(tables.sessions).where(tables.sessions.c.digest == digest(credential))
    session = tx.connection.execute(query).mappings().first()
    if session is None:
        raise ApiError(401, "This credential is neither a valid API key nor a valid user session token.")
    if session["expires_at"] <= tx.now:
        raise ApiError(401, "This user session has expired.")
    roles = {row["organization_id"]: row["role"] for row in members.memberships(tx, session["user_id"])}
    preferred = users.profile(tx, session["user_id"])["default_organization_id"]
    candidates = (preferred, session["organization_id"], *roles)
    home = next((candidate for candidate in candidates if candidate in roles), "")
    return Principal("user", home, frozenset(), session["user_id"], roles).acting_in(home)


def digest(credential: str) -> str:
    """What is kept of a secret: its SHA-256 in hexadecimal."""
    return hashlib.sha256(credential.encode()).hexdigest()
