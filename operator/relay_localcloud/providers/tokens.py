"""Provisioning tokens, with which a provider's machines enrol (sections 2 and 4, "Provisioning token", "Providers").

Only the digest of a token is stored. A revoked token leaves the list; its row stays, to explain why it is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Final

from sqlalchemy import ForeignKeyConstraint, Index, UniqueConstraint

from relay_localcloud.http.bodies import OptionalBody
from relay_localcloud.http.errors import ApiError, not_found
from relay_localcloud.http.pages import PageRequest
from relay_localcloud.http.principal import OrganizationId, OrganizationWriter, ProviderReader, ResourceId
from relay_localcloud.http.routing import Router
from relay_localcloud.identity import credentials
from relay_localcloud.kernel.instants import HOUR, LAST
from relay_localcloud.kernel.retention import Remembered
from relay_localcloud.kernel.rows import Rows, shown
from relay_localcloud.kernel.store import Tx
from relay_localcloud.providers.applications import require_provider
from relay_localcloud.quotas import quotas
from relay_wire.provider import ProvisioningTokenCreate, ProvisioningTokenCreated, ProvisioningTokenList

router = Router("Providers")

USUAL_HOURS: Final = 24
"""The default lifetime of a token (assumed)."""


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
    used_nodes: int  # all enrolled nodes, including removed ones
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

REVOKED: Final = Remembered(TOKENS.table, "revoked_at")


class TokenState(StrEnum):
    """Whether a token enrols nodes, or why it no longer does."""

    ACTIVE = "active"
    USED_UP = "used_up"
    EXPIRED = "expired"
    REVOKED = "revoked"


def state_of(token: Token, now: int) -> TokenState:
    """The state of a token at an instant; the permanent reasons come first."""
    if token.revoked_at is not None:
        return TokenState.REVOKED
    if token.expires_at <= now:
        return TokenState.EXPIRED
    if 0 < token.max_nodes <= token.used_nodes:
        return TokenState.USED_UP
    return TokenState.ACTIVE


@router.post(
    "/v1/orgs/{orgId}/provider/tokens", response_model=ProvisioningTokenCreated, summary="Make a provisioning token"
)
def create_provisioning_token(
    _: OrganizationWriter, organization_id: OrganizationId, body: OptionalBody[ProvisioningTokenCreate], tx: Tx
) -> dict[str, object]:
    """Answers the plain text, once. Every field may be absent: 24 hours, no quota, the pool `community`."""
    require_provider(tx, organization_id)
    quotas.require(tx, organization_id, {quotas.PROVISIONING_TOKENS: 1})
    token, plaintext = _create(tx, organization_id, body)
    return {**_shown(token), "token": plaintext}


@router.get(
    "/v1/orgs/{orgId}/provider/tokens", response_model=ProvisioningTokenList, summary="List provisioning tokens"
)
def list_provisioning_tokens(
    _: ProviderReader, organization_id: OrganizationId, page: PageRequest, tx: Tx
) -> dict[str, object]:
    """Answers a page, oldest first, expired and used-up tokens included."""
    require_provider(tx, organization_id)
    rows = partial(TOKENS.after, tx, organization_id=organization_id, revoked_at=None)
    return page.oldest("provisioning tokens", organization_id, rows, _shown)


@router.delete("/v1/orgs/{orgId}/provider/tokens/{id}", status_code=204, summary="Revoke a provisioning token")
def revoke_provisioning_token(
    _: OrganizationWriter, organization_id: OrganizationId, token_id: ResourceId, tx: Tx
) -> None:
    """It enrols nothing any more, and leaves the list; nodes that it enrolled stay."""
    if TOKENS.find(tx, id=token_id, organization_id=organization_id, revoked_at=None) is None:
        raise not_found("provisioning token", token_id)
    TOKENS.change(tx, token_id, revoked_at=tx.now)
    REVOKED.one_ended(tx)


def redeem(tx: Tx, plaintext: str) -> Token:
    """Use a token for one node; returns its row.

    ApiError 404 for an unknown token, 410 for an expired or revoked one, 409 for one whose quota is used up, 403 if its
    organization is no longer a provider.
    """
    token = TOKENS.find(tx, digest=credentials.digest(plaintext))
    if token is None:
        raise ApiError(404, "provisioningToken: there is no such token.")
    refusal = _REFUSALS.get(state_of(token, tx.now))
    if refusal is not None:
        status, message = refusal
        raise ApiError(status, f"provisioningToken: {message}")
    require_provider(tx, token.organization_id)
    TOKENS.change(tx, token.id, used_nodes=token.used_nodes + 1)
    return token


def _create(tx: Tx, organization_id: str, wanted: ProvisioningTokenCreate) -> tuple[Token, str]:
    """Create a token of a provider: its row, and the plain text, which is not stored."""
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


def _shown(token: Token) -> dict[str, object]:
    fields = ("id", "name", "node_type", "node_pool", "max_nodes", "used_nodes", "expires_at", "created_at")
    return shown(token, *fields)


_REFUSALS: Final[Mapping[TokenState, tuple[int, str]]] = {
    TokenState.REVOKED: (410, "this token was revoked; make another one."),
    TokenState.EXPIRED: (410, "this token has expired; make another one."),
    TokenState.USED_UP: (409, "this token has enrolled as many nodes as its maxNodes; make another one."),
}
