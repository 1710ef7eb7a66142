"""Registry credentials (section 4, "Registry credentials and runner pools")."""

from sqlalchemy import RowMapping

from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.http.bodies import Answer, Body
from relay_localcloud.http.principal import OrganizationId, ResourceId, ToolingReader, ToolingWriter
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel.instants import timestamp
from relay_localcloud.kernel.store import Tx
from relay_localcloud.tooling import registry_credentials
from relay_wire.registry_credentials import RegistryCredential, RegistryCredentialCreate, RegistryCredentialList

router = Router("Registry credentials")


@router.post("/v1/orgs/{orgId}/registry-credentials/create", summary="Create a registry credential")
def create_registry_credential(
    _: ToolingWriter, organization_id: OrganizationId, body: Body[RegistryCredentialCreate], cloud: CurrentCloud, tx: Tx
) -> RegistryCredential:
    """Answers it without its secrets; 409 where the organization has one of this name."""
    registry_credentials.check(body)
    return _shown(registry_credentials.create(tx, cloud.vault, organization_id, body))


@router.get(
    "/v1/orgs/{orgId}/registry-credentials", response_model=RegistryCredentialList, summary="List registry credentials"
)
def list_registry_credentials(_: ToolingReader, organization_id: OrganizationId, tx: Tx) -> Answer:
    """Answers `{items}`, oldest first, without secrets."""
    return {"items": [_shown(row) for row in registry_credentials.rows_of(tx, organization_id)]}


@router.delete("/v1/orgs/{orgId}/registry-credentials/{id}", summary="Remove a registry credential")
def delete_registry_credential(
    _: ToolingWriter, organization_id: OrganizationId, credential_id: ResourceId, tx: Tx
) -> None:
    """What was created with it goes on."""
    registry_credentials.remove(tx, organization_id, credential_id)


def _shown(row: RowMapping) -> RegistryCredential:
    return RegistryCredential(
        id=row["id"],
        name=row["name"],
        server=row["server"],
        auth_type=row["auth_type"],
        created_at=timestamp(row["created_at"]),
    )
