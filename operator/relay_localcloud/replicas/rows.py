"""Replicas as they are kept: clusters and deployments have a table each, of the same shape."""

from dataclasses import dataclass

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, RowMapping, String, Table, Text, text

from relay_localcloud.kernel.schema import metadata
from relay_localcloud.replicas.states import ReplicaState


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica, as its row has it; `group_id` is its cluster or deployment."""

    sequence: int
    id: str
    group_id: str
    node_id: str | None
    status: ReplicaState
    generation: int
    engine_image: str | None
    replacement_due: bool
    consecutive_failures: int
    checked_at: int | None
    created_at: int
    started_at: int | None
    terminated_at: int | None


def replica_table(name: str, group: str) -> Table:
    """The table of the replicas of one kind; the column `<group>_id` names what they belong to."""
    live = text("terminated_at IS NULL")
    return Table(
        name,
        metadata,
        Column("sequence", Integer, primary_key=True),
        Column("id", String, nullable=False, unique=True),
        Column(f"{group}_id", String, nullable=False),
        Column("node_id", String),  # null: a replica without GPUs
        Column("status", String, nullable=False),
        Column("generation", Integer, nullable=False, default=1),  # of what it runs
        Column("engine_image", Text),
        Column("replacement_due", Boolean, nullable=False, default=False),  # lost for longer than the grace
        Column("consecutive_failures", Integer, nullable=False, default=0),
        Column("checked_at", BigInteger),
        Column("created_at", BigInteger, nullable=False),
        Column("started_at", BigInteger),
        Column("terminated_at", BigInteger),
        Index(f"live_replicas_of_{group}", f"{group}_id", "sequence", sqlite_where=live),
        Index(f"live_{name}_on_node", "node_id", sqlite_where=live),
    )


def replica_of(row: RowMapping) -> Replica:
    """A replica from a row in which `group_id` names its group."""
    return Replica(**{**row, "status": ReplicaState(row["status"])})
