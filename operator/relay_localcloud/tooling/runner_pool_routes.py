"""Runner pools (section 4, "Registry credentials and runner pools"); all but create are assumed."""

from sqlalchemy import RowMapping
from starlette.responses import Response

from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.http.bodies import Body, answer, no_content
from relay_localcloud.http.openapi import ASSUMED
from relay_localcloud.http.principal import OrganizationId, ResourceId, ToolingReader, ToolingWriter
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel.instants import timestamp
from relay_localcloud.tooling import runner_pools
from relay_wire.runner_pools import RunnerPool, RunnerPoolCreate, RunnerPoolList

router = Router("Runner pools")


@router.post("/v1/orgs/{orgId}/runner-pools", response_model=RunnerPool, summary="Create a runner pool")
async def create_runner_pool(
    caller: ToolingWriter,
    organization_id: OrganizationId,
    body: Body[RunnerPoolCreate],
    cloud: CurrentCloud,
) -> Response:
    """Answers it without its grant; 409 where the organization has one of this name."""
    del caller
    with cloud.store.transaction() as tx:
        row = runner_pools.create(tx, cloud.vault, organization_id, body)
    return answer(_shown(row))


@router.get(
    "/v1/orgs/{orgId}/runner-pools", response_model=RunnerPoolList, summary="List runner pools", openapi_extra=ASSUMED
)
async def list_runner_pools(caller: ToolingReader, organization_id: OrganizationId, cloud: CurrentCloud) -> Response:
    """Answers `{items}`, oldest first."""
    del caller
    with cloud.store.transaction() as tx:
        rows = runner_pools.rows_of(tx, organization_id)
    return answer({"items": [_shown(row) for row in rows]})


@router.get(
    "/v1/orgs/{orgId}/runner-pools/{id}", response_model=RunnerPool, summary="Get a runner pool", openapi_extra=ASSUMED
)
async def get_runner_pool(
    caller: ToolingReader, organization_id: OrganizationId, pool_id: ResourceId, cloud: CurrentCloud
) -> Response:
    """Answers it without its grant."""
    del caller
    with cloud.store.transaction() as tx:
        row = runner_pools.row_of(tx, organization_id, pool_id)
    return answer(_shown(row))


@router.delete(
    "/v1/orgs/{orgId}/runner-pools/{id}", status_code=204, summary="Delete a runner pool", openapi_extra=ASSUMED
)
async def delete_runner_pool(
    caller: ToolingWriter, organization_id: OrganizationId, pool_id: ResourceId, cloud: CurrentCloud
) -> Response:
    """Its name is free again."""
    del caller
    with cloud.store.transaction() as tx:
        runner_pools.remove(tx, organization_id, pool_id)
    return no_content()


def _shown(row: RowMapping) -> RunnerPool:
    return RunnerPool.model_validate({**row, "created_at": timestamp(row["created_at"])})
