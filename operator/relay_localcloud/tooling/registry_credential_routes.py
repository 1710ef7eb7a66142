"""Registry credentials (section 4, "Registry credentials and runner pools")."""

from sqlalchemy import RowMapping
from starlette.responses import Response

from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.http.bodies import Body, answer, no_content
from relay_localcloud.http.principal import OrganizationId, ResourceId, ToolingReader, ToolingWriter
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel.instants import timestamp
from relay_localcloud.tooling import registry_credentials
from relay_wire.registry_credentials import RegistryCredential, RegistryCredentialCreate, RegistryCredentialList

router = Router("Registry credentials")


@router.post(
    "/v1/orgs/{orgId}/registry-credentials/create",
    response_model=RegistryCredential,
    summary="Create a registry credential",
)
async def create_registry_credential(
    caller: ToolingWriter,
    organization_id: OrganizationId,
    body: Body[RegistryCredentialCreate],
    cloud: CurrentCloud,
) -> Response:
    """Answers it without its secrets; 409 where the organization has one of this name."""
    del caller
    registry_credentials.check(body)
    with cloud.store.transaction() as tx:
        row = registry_credentials.create(tx, cloud.vault, organization_id, body)
    return answer(_shown(row))


@router.get(
    "/v1/orgs/{orgId}/registry-credentials", response_model=RegistryCredentialList, summary="List registry credentials"
)
async def list_registry_credentials(
    caller: ToolingReader, organization_id: OrganizationId, cloud: CurrentCloud
) -> Response:
    """Answers `{items}`, oldest first, without secrets."""
    del caller
    with cloud.store.transaction() as tx:
        rows = registry_credentials.rows_of(tx, organization_id)
    return answer({"items": [_shown(row) for row in rows]})


@router.delete("/v1/orgs/{orgId}/registry-credentials/{id}", status_code=204, summary="Remove a registry credential")
async def delete_registry_credential(
    caller: ToolingWriter, organization_id: OrganizationId, credential_id: ResourceId, cloud: CurrentCloud
) -> Response:
    """What was created with it goes on."""
    del caller
    with cloud.store.transaction() as tx:
        registry_credentials.remove(tx, organization_id, credential_id)
    return no_content()


def _shown(row: RowMapping) -> RegistryCredential:
    return RegistryCredential(
        id=row["id"],
        name=row["name"],
        server=row["server"],
        auth_type=row["auth_type"],
        created_at=timestamp(row["created_at"]),
    )
