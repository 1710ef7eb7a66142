"""Provisioning tokens of a provider (section 4, "Providers"; section 2, "Provisioning token")."""

from relay_localcloud.http.bodies import OptionalBody
from relay_localcloud.http.principal import OrganizationId, OrganizationWriter, ProviderReader, ResourceId
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel.instants import timestamp
from relay_localcloud.kernel.store import Tx
from relay_localcloud.providers import applications, provisioning
from relay_localcloud.providers.provisioning import Token
from relay_wire.provider import ProvisioningTokenCreate, ProvisioningTokenCreated, ProvisioningTokenList

router = Router("Providers")


@router.post(
    "/v1/orgs/{orgId}/provider/tokens", response_model=ProvisioningTokenCreated, summary="Make a provisioning token"
)
def create_provisioning_token(
    _: OrganizationWriter, organization_id: OrganizationId, body: OptionalBody[ProvisioningTokenCreate], tx: Tx
) -> dict[str, object]:
    """Answers the plain text, once. Every field may be absent: 24 hours, no quota, the pool `community`."""
    applications.require_provider(tx, organization_id)
    row, plaintext = provisioning.create(tx, organization_id, body)
    return {**_shown(row), "token": plaintext}


@router.get(
    "/v1/orgs/{orgId}/provider/tokens", response_model=ProvisioningTokenList, summary="List provisioning tokens"
)
def list_provisioning_tokens(_: ProviderReader, organization_id: OrganizationId, tx: Tx) -> dict[str, object]:
    """Answers `{items}`, oldest first, expired and used-up tokens included."""
    applications.require_provider(tx, organization_id)
    rows = provisioning.every(tx, organization_id)
    return {"items": [_shown(row) for row in rows if row.revoked_at is None]}


@router.delete("/v1/orgs/{orgId}/provider/tokens/{id}", status_code=204, summary="Revoke a provisioning token")
def revoke_provisioning_token(
    _: OrganizationWriter, organization_id: OrganizationId, token_id: ResourceId, tx: Tx
) -> None:
    """It enrols nothing any more, and leaves the list; nodes that it enrolled stay."""
    provisioning.revoke(tx, organization_id, token_id)


def _shown(row: Token) -> dict[str, object]:
    return {
        "id": row.id,
        "name": row.name,
        "nodeType": row.node_type,
        "nodePool": row.node_pool,
        "maxNodes": row.max_nodes,
        "usedNodes": row.used_nodes,
        "expiresAt": timestamp(row.expires_at),
        "createdAt": timestamp(row.created_at),
    }
