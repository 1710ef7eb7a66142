"""Tells clusters and deployments that wait for room when some becomes free; clusters are served first."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Column, Integer, String, Table, bindparam, delete, insert, select

from relay_localcloud.kernel.prepared import Prepared
from relay_localcloud.kernel.schema import metadata
from relay_localcloud.kernel.store import Tx


@dataclass(frozen=True, slots=True)
class Queue:
    """Who waits for room: a table of their ids, the oldest first by `sequence`, and of the GPU models they wait for.

    `fill` is the due item that lets those who wait for a model (its subject, empty: no GPU) have what became free.
    """

    fill: str
    table: Table
    _somebody_waits: Prepared

    @classmethod
    def of(cls, fill: str, name: str, group: str) -> "Queue":
        """The queue of a kind."""
        table = Table(
            name,
            metadata,
            Column("sequence", Integer, primary_key=True),
            Column(f"{group}_id", String, nullable=False, unique=True),
            Column("gpu_model_id", String, nullable=False, index=True),
        )
        waits = select(table.c.sequence).where(table.c.gpu_model_id == bindparam("model")).limit(1)
        return cls(fill, table, Prepared(waits))

    def join(self, tx: Tx, sequence: int, group_id: str, gpu_model_id: str | None) -> None:
        """Wait; who waits already stays where they are."""
        entry = {"sequence": sequence, self._group.name: group_id, "gpu_model_id": gpu_model_id or ""}
        tx.connection.execute(insert(self.table).prefix_with("OR IGNORE"), entry)

    def leave(self, tx: Tx, group_id: str) -> None:
        """Wait no longer; who did not wait is fine."""
        tx.connection.execute(delete(self.table).where(self._group == group_id))

    def waiting_for(self, tx: Tx, gpu_model_id: str) -> list[str]:
        """The ids of those who wait for a model, in the order in which they are served."""
        mine = self.table.c.gpu_model_id == gpu_model_id
        return list(tx.connection.execute(select(self._group).where(mine).order_by(self.table.c.sequence)).scalars())

    def announce(self, tx: Tx, gpu_model_ids: Iterable[str]) -> None:
        """Let those who wait for these models be served, where there are any."""
        for gpu_model_id in gpu_model_ids:
            if self._somebody_waits.run(tx.connection, model=gpu_model_id).fetchone() is not None:
                tx.schedule(tx.now, self.fill, gpu_model_id)

    @property
    def _group(self) -> Column[str]:
        return self.table.columns[1]


CLUSTERS: Final = Queue.of("cluster.fill", "waiting_clusters", "cluster")
DEPLOYMENTS: Final = Queue.of("serving.fill", "waiting_deployments", "deployment")


def announce_vacancy(tx: Tx, gpu_model_id: str) -> None:
    """GPUs of this model became free."""
    for queue in (CLUSTERS, DEPLOYMENTS):
        queue.announce(tx, (gpu_model_id,))


def announce_address(tx: Tx) -> None:
    """An address became free, which whoever waits may have lacked."""
    for queue in (CLUSTERS, DEPLOYMENTS):
        models = select(queue.table.c.gpu_model_id).distinct()
        queue.announce(tx, tx.connection.execute(models).scalars().all())
