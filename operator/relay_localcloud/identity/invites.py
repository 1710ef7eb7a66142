"""Invites: e-mails with a token that makes the user who accepts it a member (section 2; how to accept it is assumed).

Only its addressee may accept an invite to the e-mail of a user. An invite to an unknown e-mail is for the holder of its
token, which only that mailbox received.
"""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import delete, insert, select, update

from relay_localcloud.http.errors import ApiError
from relay_localcloud.identity import credentials, members, organizations, users
from relay_localcloud.kernel import tables
from relay_localcloud.kernel.instants import DAY, LAST, SECOND, timestamp
from relay_localcloud.kernel.store import Tx
from relay_localcloud.quotas import quotas

_REMEMBERED: Final = DAY
"""The least time for which accepting a used or expired invite is answered 410 rather than 404."""


@dataclass(frozen=True)
class Invite:
    """The invited e-mail, the role, and the seconds of validity."""

    email: str
    role: str
    expires_in_seconds: int


def send(tx: Tx, organization_id: str, invite: Invite) -> str:
    """Create an invite and write its e-mail; returns the token, of which only the digest and that e-mail are kept.

    ApiError 403 beyond the quota.
    """
    tx.connection.execute(delete(tables.invites).where(tables.invites.c.expires_at <= tx.now - _REMEMBERED))
    quotas.require(tx, organization_id, {quotas.INVITES: 1})
    token = credentials.new_secret("inv_")
    expires_at = min(tx.now + invite.expires_in_seconds * SECOND, LAST)
    name = organizations.name_of(tx, organization_id)
    values = {
        "digest": credentials.digest(token),
        "organization_id": organization_id,
        "email": invite.email.lower(),
        "role": invite.role,
        "created_at": tx.now,
        "expires_at": expires_at,
    }
    tx.connection.execute(insert(tables.invites), values)
    body = f"Accept with POST /v1/invites/{token}/accept before {timestamp(expires_at)}; you will be {invite.role}."
    tx.email(organization_id, invite.email, f"You are invited to {name}", body)
    return token


def accept(tx: Tx, token: str, user_id: str) -> tuple[str, str]:
    """Make the user a member; returns the organization and the role.

    ApiError 404 for an unknown token, 410 for an expired or used one, 403 for somebody else's, 409 for a user who is a
    member already.
    """
    of_token = tables.invites.c.digest == credentials.digest(token)
    row = tx.connection.execute(select(tables.invites).where(of_token)).mappings().first()
    if row is None:
        raise ApiError(404, "There is no such invite.")
    if row["accepted_at"] is not None:
        raise ApiError(410, "This invite was accepted already; an invite is for one person.")
    if row["expires_at"] <= tx.now:
        raise ApiError(410, f"This invite expired at {timestamp(row['expires_at'])}; ask for another one.")
    if users.by_email(tx, row["email"]) not in (None, user_id):
        raise ApiError(403, "This invite is for somebody else; sign in with the e-mail it was sent to.")
    members.join(tx, row["organization_id"], user_id, row["role"])
    tx.connection.execute(update(tables.invites).where(of_token).values(accepted_at=tx.now, expires_at=tx.now))
    return row["organization_id"], row["role"]
