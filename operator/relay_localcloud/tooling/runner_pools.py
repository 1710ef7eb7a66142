"""Runner pools as they are kept (section 2, "Create runner pool"); nothing runs in them here, and they cost nothing."""

from sqlalchemy import BigInteger, Column, Index, Integer, RowMapping, String, Table, Text, insert

from relay_localcloud.capacity.catalog import DEFAULT_DISK_GB
from relay_localcloud.http import owned
from relay_localcloud.kernel.schema import metadata
from relay_localcloud.kernel.store import Tx
from relay_localcloud.kernel.vault import Vault, owner_of
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
    Column("sealed_grant", Text),  # encrypted (`kernel/vault.py`)
    Column("created_at", BigInteger, nullable=False),
    Index("runner_pool_names", "organization_id", "name", unique=True),
)


def create(tx: Tx, vault: Vault, organization_id: str, body: RunnerPoolCreate) -> RowMapping:
    """Keep a pool; ApiError 409 where its name is taken."""
    owned.require_free_name(tx, runner_pools, organization_id, body.name, "a runner pool")
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
    return owned.every(tx, runner_pools, organization_id)


def row_of(tx: Tx, organization_id: str, pool_id: str) -> RowMapping:
    """A pool; ApiError 404 where the organization has none of this id."""
    return owned.get(tx, runner_pools, organization_id, pool_id, "runner pool")


def remove(tx: Tx, organization_id: str, pool_id: str) -> None:
    """Delete a pool; ApiError 404 where the organization has none of this id."""
    owned.remove(tx, runner_pools, organization_id, pool_id, "runner pool")
