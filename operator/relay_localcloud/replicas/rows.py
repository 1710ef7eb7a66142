"""The rows of replicas: clusters and deployments have a table each, of the same shape."""

from dataclasses import dataclass

from sqlalchemy import Index, text

from relay_localcloud.kernel.rows import Rows
from relay_localcloud.replicas.states import ReplicaState


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica; `group_id` is its cluster or deployment."""

    sequence: int
    id: str
    group_id: str
    node_id: str | None  # None for a replica without GPUs
    status: ReplicaState
    created_at: int
    generation: int = 1  # the intent's when it was placed
    engine_image: str | None = None
    replacement_due: bool = False  # another one is to take its place as soon as there is room
    consecutive_failures: int = 0
    checked_at: int | None = None
    started_at: int | None = None
    terminated_at: int | None = None
    changed_at: int | None = None  # when its status last changed; None if that was before this column
    reason: str | None = None  # why it does not serve, in the runtime's words


def replica_rows(name: str, group: str) -> Rows[Replica]:
    """The table of one kind of replica; its column `<group>_id` is `Replica.group_id`."""
    live = text("terminated_at IS NULL")
    return Rows(
        Replica,
        name,
        Index(f"live_replicas_of_{group}", f"{group}_id", "sequence", sqlite_where=live),
        Index(f"live_{name}_on_node", "node_id", sqlite_where=live),
        named={"group_id": f"{group}_id"},
    )
