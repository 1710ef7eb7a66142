"""Runner pools as they are kept (section 2, "Create runner pool"); nothing runs in them here, and they cost nothing."""

from sqlalchemy import BigInteger, Column, Index, Integer, RowMapping, String, Table, Text, delete, insert, select

from relay_localcloud.catalog import DEFAULT_DISK_GB
from relay_localcloud.errors import ApiError, not_found
from relay_localcloud.schema import metadata
from relay_localcloud.store import Tx
from relay_localcloud.vault import Vault, owner_of
from relay_wire.runner_pools import RunnerPoolCreate

runner_pools = Table(
    "runner_pools",
    metadata,
    Column("sequence", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("organization_id", String, nullable=False),
    Column("name", String, nullable=False),
    Column("installation_id", BigInteger, nullable=False),
    Column("vcs_owner", String),
    Column("vcs_owner_type", String),
    Column("pool_ram_gb", Integer, nullable=False),
    Column("disk_size_gb", Integer, nullable=False),
    Column("sealed_grant", Text),  # encrypted (`vault.py`)
    Column("created_at", BigInteger, nullable=False),
    Index("runner_pool_names", "organization_id", "name", unique=True),
)


def create(tx: Tx, vault: Vault, organization_id: str, body: RunnerPoolCreate) -> RowMapping:
    """Keep a pool; ApiError 409 where its name is taken."""
    pool = runner_pools.c
    clash = select(pool.id).where(pool.organization_id == organization_id, pool.name == body.name)
    if tx.connection.execute(clash).first() is not None:
        raise ApiError(409, f"There is a runner pool {body.name!r} already.")
    pool_id = tx.new_id("rnp")
    values = {
        "id": pool_id,
        "organization_id": organization_id,
        "name": body.name,
        "installation_id": body.installation_id,
        "vcs_owner": body.vcs_owner,
        "vcs_owner_type": body.vcs_owner_type,
        "pool_ram_gb": body.pool_ram_gb,
        "disk_size_gb": DEFAULT_DISK_GB if body.disk_size_gb is None else body.disk_size_gb,
        "sealed_grant": None if body.grant is None else vault.seal(body.grant, owner_of(organization_id, pool_id)),
        "created_at": tx.now,
    }
    return tx.connection.execute(insert(runner_pools).returning(runner_pools), values).mappings().one()


def rows_of(tx: Tx, organization_id: str) -> list[RowMapping]:
    """Every pool of an organization, the oldest first."""
    query = select(runner_pools).where(runner_pools.c.organization_id == organization_id)
    return list(tx.connection.execute(query.order_by(runner_pools.c.sequence)).mappings())


def row_of(tx: Tx, organization_id: str, pool_id: str) -> RowMapping:
    """A pool; ApiError 404 where the organization has none of this id."""
    query = select(runner_pools).where(runner_pools.c.id == pool_id, runner_pools.c.organization_id == organization_id)
    row = tx.connection.execute(query).mappings().first()
    if row is None:
        raise not_found("runner pool", pool_id)
    return row


def remove(tx: Tx, organization_id: str, pool_id: str) -> None:
    """Delete a pool; ApiError 404 where the organization has none of this id."""
    row_of(tx, organization_id, pool_id)
    tx.connection.execute(delete(runner_pools).where(runner_pools.c.id == pool_id))
