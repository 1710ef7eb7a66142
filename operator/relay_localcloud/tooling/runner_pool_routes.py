"""Runner pools (section 4, "Registry credentials and runner pools"); all but create are assumed."""

from sqlalchemy import RowMapping

from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.http.bodies import Answer, Body
from relay_localcloud.http.openapi import ASSUMED
from relay_localcloud.http.principal import OrganizationId, ResourceId, ToolingReader, ToolingWriter
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel.instants import timestamp
from relay_localcloud.kernel.store import Tx
from relay_localcloud.tooling import runner_pools
from relay_wire.runner_pools import RunnerPool, RunnerPoolCreate, RunnerPoolList

router = Router("Runner pools")


@router.post("/v1/orgs/{orgId}/runner-pools", summary="Create a runner pool")
def create_runner_pool(
    _: ToolingWriter, organization_id: OrganizationId, body: Body[RunnerPoolCreate], cloud: CurrentCloud, tx: Tx
) -> RunnerPool:
    """Answers it without its grant; 409 where the organization has one of this name."""
    return _shown(runner_pools.create(tx, cloud.vault, organization_id, body))


@router.get(
    "/v1/orgs/{orgId}/runner-pools", response_model=RunnerPoolList, summary="List runner pools", openapi_extra=ASSUMED
)
def list_runner_pools(_: ToolingReader, organization_id: OrganizationId, tx: Tx) -> Answer:
    """Answers `{items}`, oldest first."""
    return {"items": [_shown(row) for row in runner_pools.rows_of(tx, organization_id)]}


@router.get("/v1/orgs/{orgId}/runner-pools/{id}", summary="Get a runner pool", openapi_extra=ASSUMED)
def get_runner_pool(_: ToolingReader, organization_id: OrganizationId, pool_id: ResourceId, tx: Tx) -> RunnerPool:
    """Answers it without its grant."""
    return _shown(runner_pools.row_of(tx, organization_id, pool_id))


@router.delete("/v1/orgs/{orgId}/runner-pools/{id}", summary="Delete a runner pool", openapi_extra=ASSUMED)
def delete_runner_pool(_: ToolingWriter, organization_id: OrganizationId, pool_id: ResourceId, tx: Tx) -> None:
    """Its name is free again."""
    runner_pools.remove(tx, organization_id, pool_id)


def _shown(row: RowMapping) -> RunnerPool:
    return RunnerPool.model_validate({**row, "created_at": timestamp(row["created_at"])})
