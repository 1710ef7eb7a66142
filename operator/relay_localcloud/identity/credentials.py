"""API keys and user sessions: creation, lookup and revocation. Only digests are stored (section 5)."""

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Final, Literal

from sqlalchemy import ForeignKeyConstraint, Index, UniqueConstraint, delete, insert, or_, select

from relay_localcloud.http.errors import ApiError
from relay_localcloud.http.principal import Principal
from relay_localcloud.identity import members, users
from relay_localcloud.kernel import tables
from relay_localcloud.kernel.instants import DAY, LAST, MINUTE, SECOND
from relay_localcloud.kernel.retention import Remembered
from relay_localcloud.kernel.rows import Rows
from relay_localcloud.kernel.store import Tx
from relay_localcloud.kernel.tables import FIRST_COME

KEY_PREFIX = "or_"
LEGACY_KEY_PREFIX = "vl_"  # earlier-issued keys still authenticate (section 5, rule 2)
SESSION_PREFIX = "ust_"
SESSION_LIFE = DAY
MOST_SESSIONS: Final = 100
"""Sessions of one user (assumed); a further one ends the oldest."""

_SHOWN = 11  # the prefix and 8 characters, which reveal nothing about the other 40
_USE_IS_WRITTEN_EVERY = MINUTE


@dataclass(frozen=True, slots=True)
class ApiKey:
    """An API key of an organization, without its plain text."""

    id: str
    organization_id: str
    name: str
    key_prefix: str
    digest: str  # SHA-256 of the key
    scopes: tuple[str, ...]
    created_at: int
    expires_at: int | None
    last_used_at: int | None
    revoked_at: int | None


KEYS: Final = Rows(
    ApiKey,
    "api_keys",
    ForeignKeyConstraint(["organization_id"], ["organizations.id"]),
    UniqueConstraint("digest"),
    Index("api_keys_of_organization", "organization_id", "created_at"),
    key=("id",),
)

REVOKED: Final = Remembered(KEYS.table, "revoked_at")


class RefusedKey(ApiError):
    """401 for an API key, and why."""

    def __init__(self, reason: Literal["invalid", "revoked", "expired"], message: str) -> None:
        super().__init__(401, message)
        self.reason = reason


def new_secret(prefix: str) -> str:
    """A new secret of 48 hexadecimal digits after its prefix."""
    return prefix + secrets.token_hex(24)


def expiry(now: int, expires_in_seconds: int | None) -> int | None:
    """When a key with this lifetime expires; an absent or non-positive lifetime means never (section 2)."""
    if expires_in_seconds is None or expires_in_seconds <= 0:
        return None
    return min(now + expires_in_seconds * SECOND, LAST)


def create_key(
    tx: Tx,
    organization_id: str,
    name: str,
    scopes: Sequence[str],
    expires_at: int | None = None,
    prefix: str = KEY_PREFIX,
    *,
    plaintext: str | None = None,
) -> tuple[ApiKey, str]:
    """Create an API key: its record, and its plain text, which is not stored."""
    plaintext = plaintext or new_secret(prefix)
    key = KEYS.insert(
        tx,
        id=tx.new_id("key"),
        organization_id=organization_id,
        name=name,
        key_prefix=plaintext[:_SHOWN],
        digest=digest(plaintext),
        scopes=tuple(scopes),
        created_at=tx.now,
        expires_at=expires_at,
    )
    return key, plaintext


def live_keys(tx: Tx, organization_id: str) -> list[ApiKey]:
    """The organization's valid keys, oldest first."""
    keys = KEYS.all(tx, organization_id=organization_id, revoked_at=None)
    return [key for key in keys if key.expires_at is None or key.expires_at > tx.now]


def create_session(tx: Tx, user_id: str, organization_id: str = "", *, token: str | None = None) -> str:
    """Open a user session, which lasts 24 hours of the cloud's clock (assumed), and return its token.

    A user keeps the newest 100; of all users, sessions that expired a day ago are deleted.

    If a path names no organization, the session acts in the user's default one, else in `organization_id`, else in the
    user's first own one, else in the one that they joined first; never in one that the user is not a member of.
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
    of_user = tables.sessions.c.user_id == user_id
    beyond = select(FIRST_COME).where(of_user).order_by(FIRST_COME.desc()).limit(-1).offset(MOST_SESSIONS)
    over = or_(tables.sessions.c.expires_at <= tx.now - DAY, FIRST_COME.in_(beyond.select_from(tables.sessions)))
    tx.connection.execute(delete(tables.sessions).where(over))
    return token


def authenticate(tx: Tx, credential: str) -> Principal:
    """The caller with this key or session token; ApiError 401 if it is invalid, revoked or expired (section 5)."""
    if credential.startswith((KEY_PREFIX, LEGACY_KEY_PREFIX)):
        return _key_holder(tx, credential)
    return _session_user(tx, credential)


def _key_holder(tx: Tx, credential: str) -> Principal:
    key = KEYS.find(tx, digest=digest(credential))
    if key is None:
        raise RefusedKey("invalid", "This API key is not valid.")
    if key.revoked_at is not None:
        raise RefusedKey("revoked", "This API key was revoked.")
    if key.expires_at is not None and key.expires_at <= tx.now:
        raise RefusedKey("expired", "This API key has expired.")
    if key.last_used_at is None or tx.now - key.last_used_at >= _USE_IS_WRITTEN_EVERY:
        tx.note(partial(_note_use, key.id))
    return Principal("api_key", key.organization_id, key.scopes, name=key.key_prefix, expires_at=key.expires_at)


def _note_use(key_id: str, tx: Tx) -> None:
    KEYS.change(tx, key_id, last_used_at=tx.now)


def _session_user(tx: Tx, credential: str) -> Principal:
    query = select(tables.sessions).where(tables.sessions.c.digest == digest(credential))
    session = tx.connection.execute(query).mappings().first()
    if session is None:
        raise ApiError(401, "This credential is neither a valid API key nor a valid user session token.")
    if session["expires_at"] <= tx.now:
        raise ApiError(401, "This user session has expired.")
    user_id = session["user_id"]
    role_in = cache(partial(members.role_of, tx, user_id))  # not all of them: a user may belong to thousands
    candidates = (users.profile(tx, user_id)["default_organization_id"], session["organization_id"])
    home = next((each for each in candidates if each and role_in(each)), None) or members.home_of(tx, user_id)
    return Principal("user", home, (), user_id, role_in, name=user_id).acting_in(home)


def digest(credential: str) -> str:
    """The stored form of a secret: its SHA-256 in hexadecimal."""
    return hashlib.sha256(credential.encode()).hexdigest()
