"""Provisioning tokens: what a provider's machines enrol with (section 2, "Provisioning token").

Only the digest of a token is kept. One that was revoked leaves the list, and its row stays to say why it is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sqlalchemy import ForeignKeyConstraint, Index, UniqueConstraint, update

from relay_localcloud.http.errors import ApiError, not_found
from relay_localcloud.identity import credentials
from relay_localcloud.kernel.instants import HOUR, LAST
from relay_localcloud.kernel.rows import Rows
from relay_localcloud.kernel.store import Tx
from relay_localcloud.providers import applications
from relay_wire.provider import ProvisioningTokenCreate

USUAL_HOURS: Final = 24
"""How long a token enrols nodes unless it says otherwise (assumed)."""


@dataclass(frozen=True, slots=True)
class Token:
    """A provisioning token."""

    sequence: int
    id: str
    organization_id: str
    name: str
    digest: str  # SHA-256 of the token
    node_type: str | None
    node_pool: str
    max_nodes: int  # 0: no quota
    used_nodes: int  # ever enrolled, removed ones included
    created_at: int
    expires_at: int
    revoked_at: int | None


TOKENS: Final = Rows(
    Token,
    "provisioning_tokens",
    ForeignKeyConstraint(["organization_id"], ["organizations.id"]),
    UniqueConstraint("digest"),
    Index("tokens_of_provider", "organization_id", "sequence"),
)
tokens: Final = TOKENS.table


class TokenState(StrEnum):
    """Whether a token enrols nodes, or why it does not any more."""

    ACTIVE = "active"
    USED_UP = "used_up"
    EXPIRED = "expired"
    REVOKED = "revoked"


def state_of(token: Token, now: int) -> TokenState:
    """The state of a token at an instant; the reason that lasts comes first."""
    if token.revoked_at is not None:
        return TokenState.REVOKED
    if token.expires_at <= now:
        return TokenState.EXPIRED
    if 0 < token.max_nodes <= token.used_nodes:
        return TokenState.USED_UP
    return TokenState.ACTIVE


def create(tx: Tx, organization_id: str, wanted: ProvisioningTokenCreate) -> tuple[Token, str]:
    """Make a token of a provider: its row, and the plain text that nothing else ever has."""
    plaintext = credentials.new_secret("prov_")
    token_id = tx.new_id("ptok")
    token = TOKENS.insert(
        tx,
        id=token_id,
        organization_id=organization_id,
        name=wanted.name or f"token-{token_id.rpartition('_')[2][:10]}",
        digest=credentials.digest(plaintext),
        node_type=wanted.node_type,
        node_pool=wanted.node_pool,
        max_nodes=wanted.max_nodes,
        used_nodes=0,
        created_at=tx.now,
        expires_at=min(tx.now + (wanted.expires_in_hours or USUAL_HOURS) * HOUR, LAST),
    )
    return token, plaintext


def every(tx: Tx, organization_id: str) -> list[Token]:
    """Every token of an organization in the order of creation, revoked ones included."""
    return TOKENS.select(tx.connection, tokens.c.organization_id == organization_id)


def revoke(tx: Tx, organization_id: str, token_id: str) -> None:
    """Make a token enrol nothing from now on; ApiError 404 for one that is not there, or not any more."""
    live = (tokens.c.id == token_id, tokens.c.organization_id == organization_id, tokens.c.revoked_at.is_(None))
    if tx.connection.execute(update(tokens).where(*live).values(revoked_at=tx.now)).rowcount == 0:
        raise not_found("provisioning token", token_id)


def redeem(tx: Tx, plaintext: str) -> Token:
    """Use a token up by one node: its row.

    ApiError 404 for an unknown token, 410 for one that expired or was revoked, 409 for one whose quota is used up, 403
    where its organization is no longer a provider.
    """
    mine = tokens.c.digest == credentials.digest(plaintext)
    token = next(iter(TOKENS.select(tx.connection, mine)), None)
    if token is None:
        raise ApiError(404, "provisioningToken: there is no such token.")
    refusal = _REFUSALS.get(state_of(token, tx.now))
    if refusal is not None:
        status, message = refusal
        raise ApiError(status, f"provisioningToken: {message}")
    applications.require_provider(tx, token.organization_id)
    TOKENS.change(tx, token.id, used_nodes=token.used_nodes + 1)
    return token


_REFUSALS: Final[Mapping[TokenState, tuple[int, str]]] = {
    TokenState.REVOKED: (410, "this token was revoked; make another one."),
    TokenState.EXPIRED: (410, "this token has expired; make another one."),
    TokenState.USED_UP: (409, "this token has enrolled as many nodes as its maxNodes; make another one."),
}
