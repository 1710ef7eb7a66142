"""Runner pools (sections 2 and 4; all but create are assumed); this cloud runs nothing in them, and they are free."""

from dataclasses import dataclass
from functools import partial
from typing import Final

from sqlalchemy import Index

from relay_localcloud.capacity.catalog import DEFAULT_DISK_GB
from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.http.bodies import Answer, Body
from relay_localcloud.http.errors import ApiError, not_found
from relay_localcloud.http.openapi import ASSUMED
from relay_localcloud.http.pages import PageRequest
from relay_localcloud.http.principal import OrganizationId, ResourceId, ToolingReader, ToolingWriter
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel.rows import Rows, shown
from relay_localcloud.kernel.store import Tx
from relay_localcloud.kernel.vault import owner_of
from relay_localcloud.quotas import quotas
from relay_wire.runner_pools import RunnerPool, RunnerPoolCreate, RunnerPoolList

router = Router("Runner pools")


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool; its grant is encrypted (`kernel/vault.py`)."""

    sequence: int
    id: str
    organization_id: str
    name: str
    installation_id: int
    vcs_owner: str | None
    vcs_owner_type: str | None
    pool_ram_gb: int
    sealed_grant: str | None
    created_at: int
    disk_size_gb: int = DEFAULT_DISK_GB


POOLS: Final = Rows(Pool, "runner_pools", Index("runner_pool_names", "organization_id", "name", unique=True))


@router.post("/v1/orgs/{orgId}/runner-pools", summary="Create a runner pool")
def create_runner_pool(
    _: ToolingWriter, organization_id: OrganizationId, body: Body[RunnerPoolCreate], cloud: CurrentCloud, tx: Tx
) -> RunnerPool:
    """Answers the pool without its grant; 409 if the organization has one of this name."""
    if POOLS.find(tx, organization_id=organization_id, name=body.name) is not None:
        raise ApiError(409, f"There is a runner pool {body.name!r} already.")
    quotas.require(tx, organization_id, {quotas.RUNNER_POOLS: 1})
    pool_id = tx.new_id("rnp")
    given = body.model_dump(by_alias=False, exclude={"grant"}, exclude_none=True)
    sealed = None if body.grant is None else cloud.vault.seal(body.grant, owner_of(organization_id, pool_id))
    kept = {"id": pool_id, "organization_id": organization_id, "sealed_grant": sealed, "created_at": tx.now}
    return _shown(POOLS.insert(tx, **kept, **given))


@router.get(
    "/v1/orgs/{orgId}/runner-pools", response_model=RunnerPoolList, summary="List runner pools", openapi_extra=ASSUMED
)
def list_runner_pools(_: ToolingReader, organization_id: OrganizationId, page: PageRequest, tx: Tx) -> Answer:
    """Answers a page, oldest first."""
    rows = partial(POOLS.after, tx, organization_id=organization_id)
    return page.oldest("runner pools", organization_id, rows, _shown)


@router.get("/v1/orgs/{orgId}/runner-pools/{id}", summary="Get a runner pool", openapi_extra=ASSUMED)
def get_runner_pool(_: ToolingReader, organization_id: OrganizationId, pool_id: ResourceId, tx: Tx) -> RunnerPool:
    """Answers the pool without its grant."""
    pool = POOLS.find(tx, id=pool_id, organization_id=organization_id)
    if pool is None:
        raise not_found("runner pool", pool_id)
    return _shown(pool)


@router.delete("/v1/orgs/{orgId}/runner-pools/{id}", summary="Delete a runner pool", openapi_extra=ASSUMED)
def delete_runner_pool(_: ToolingWriter, organization_id: OrganizationId, pool_id: ResourceId, tx: Tx) -> None:
    """Deletes the pool; its name is free again."""
    if not POOLS.remove(tx, id=pool_id, organization_id=organization_id):
        raise not_found("runner pool", pool_id)


def _shown(pool: Pool) -> RunnerPool:
    return RunnerPool.model_validate(shown(pool))
