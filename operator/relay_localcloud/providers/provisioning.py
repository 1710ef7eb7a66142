"""Provisioning tokens: what a provider's machines enrol with (section 2, "Provisioning token").

Only the digest of a token is kept. One that was revoked leaves the list, and its row stays to say why it is refused.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, RowMapping, String, Table, insert, select, update

from relay_localcloud.http.errors import ApiError, not_found
from relay_localcloud.identity import credentials
from relay_localcloud.kernel.instants import HOUR, LAST
from relay_localcloud.kernel.schema import metadata
from relay_localcloud.kernel.store import Tx
from relay_localcloud.providers import applications
from relay_wire.provider import ProvisioningTokenCreate

USUAL_HOURS: Final = 24
"""How long a token enrols nodes unless it says otherwise (assumed)."""

tokens = Table(
    "provisioning_tokens",
    metadata,
    Column("sequence", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("organization_id", ForeignKey("organizations.id"), nullable=False),
    Column("name", String, nullable=False),
    Column("digest", String, nullable=False, unique=True),  # SHA-256 of the token
    Column("node_type", String),
    Column("node_pool", String, nullable=False),
    Column("max_nodes", Integer, nullable=False),  # 0: no quota
    Column("used_nodes", Integer, nullable=False),  # ever enrolled, removed ones included
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("revoked_at", BigInteger),
    Index("tokens_of_provider", "organization_id", "sequence"),
)


class TokenState(StrEnum):
    """Whether a token enrols nodes, or why it does not any more."""

    ACTIVE = "active"
    USED_UP = "used_up"
    EXPIRED = "expired"
    REVOKED = "revoked"


def state_of(token: RowMapping, now: int) -> TokenState:
    """The state of a token at an instant; the reason that lasts comes first."""
    if token["revoked_at"] is not None:
        return TokenState.REVOKED
    if token["expires_at"] <= now:
        return TokenState.EXPIRED
    if 0 < token["max_nodes"] <= token["used_nodes"]:
        return TokenState.USED_UP
    return TokenState.ACTIVE


def create(tx: Tx, organization_id: str, wanted: ProvisioningTokenCreate) -> tuple[RowMapping, str]:
    """Make a token of a provider: its row, and the plain text that nothing else ever has."""
    plaintext = credentials.new_secret("prov_")
    token_id = tx.new_id("ptok")
    values = {
        "id": token_id,
        "organization_id": organization_id,
        "name": wanted.name or f"token-{token_id.rpartition('_')[2][:10]}",
        "digest": credentials.digest(plaintext),
        "node_type": wanted.node_type,
        "node_pool": wanted.node_pool,
        "max_nodes": wanted.max_nodes,
        "used_nodes": 0,
        "created_at": tx.now,
        "expires_at": min(tx.now + (wanted.expires_in_hours or USUAL_HOURS) * HOUR, LAST),
    }
    row = tx.connection.execute(insert(tokens).returning(tokens), values).mappings().one()
    return row, plaintext


def every(tx: Tx, organization_id: str) -> list[RowMapping]:
    """Every token of an organization in the order of creation, revoked ones included."""
    query = select(tokens).where(tokens.c.organization_id == organization_id).order_by(tokens.c.sequence)
    return list(tx.connection.execute(query).mappings())


def revoke(tx: Tx, organization_id: str, token_id: str) -> None:
    """Make a token enrol nothing from now on; ApiError 404 for one that is not there, or not any more."""
    live = (tokens.c.id == token_id, tokens.c.organization_id == organization_id, tokens.c.revoked_at.is_(None))
    if tx.connection.execute(update(tokens).where(*live).values(revoked_at=tx.now)).rowcount == 0:
        raise not_found("provisioning token", token_id)


def redeem(tx: Tx, plaintext: str) -> RowMapping:
    """Use a token up by one node: its row.

    ApiError 404 for an unknown token, 410 for one that expired or was revoked, 409 for one whose quota is used up, 403
    where its organization is no longer a provider.
    """
    query = select(tokens).where(tokens.c.digest == credentials.digest(plaintext))
    token = tx.connection.execute(query).mappings().first()
    if token is None:
        raise ApiError(404, "provisioningToken: there is no such token.")
    refusal = _REFUSALS.get(state_of(token, tx.now))
    if refusal is not None:
        status, message = refusal
        raise ApiError(status, f"provisioningToken: {message}")
    applications.require_provider(tx, token["organization_id"])
    used = update(tokens).where(tokens.c.id == token["id"]).values(used_nodes=tokens.c.used_nodes + 1)
    tx.connection.execute(used)
    return token


_REFUSALS: Final[Mapping[TokenState, tuple[int, str]]] = {
    TokenState.REVOKED: (410, "this token was revoked; make another one."),
    TokenState.EXPIRED: (410, "this token has expired; make another one."),
    TokenState.USED_UP: (409, "this token has enrolled as many nodes as its maxNodes; make another one."),
}
