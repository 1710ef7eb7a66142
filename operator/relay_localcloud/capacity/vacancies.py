"""Tells clusters and deployments that wait for room when some becomes free; clusters are served first."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Index, UniqueConstraint

from relay_localcloud.kernel import due
from relay_localcloud.kernel.rows import Rows
from relay_localcloud.kernel.store import Tx


@dataclass(frozen=True, slots=True)
class Waiting:
    """A cluster or deployment that waits for GPUs of a model, or, if that is empty, for an address alone."""

    sequence: int  # its own: the oldest is served first
    group_id: str
    gpu_model_id: str


@dataclass(frozen=True, slots=True)
class Queue:
    """Who waits for room; `fill` is the due item that lets those who wait for a model (its subject) have it."""

    fill: str
    rows: Rows[Waiting]
    behind: "Queue | None" = None
    """Who is served first."""

    @classmethod
    def of(cls, fill: str, name: str, group: str, behind: "Queue | None" = None) -> "Queue":
        """The queue of a kind."""
        by_model = Index(f"ix_{name}_gpu_model_id", "gpu_model_id")
        unique, named = UniqueConstraint(f"{group}_id"), {"group_id": f"{group}_id"}
        return cls(fill, Rows(Waiting, name, unique, by_model, named=named), behind)

    def join(self, tx: Tx, sequence: int, group_id: str, gpu_model_id: str | None) -> None:
        """Wait; who waits already stays where they are."""
        self.rows.add(tx, sequence=sequence, group_id=group_id, gpu_model_id=gpu_model_id or "")

    def leave(self, tx: Tx, group_id: str) -> None:
        """Wait no longer; who did not wait is fine."""
        self.rows.remove(tx, group_id=group_id)

    def waiting_for(self, tx: Tx, gpu_model_id: str, after: int, count: int) -> list[Waiting]:
        """So many of those who wait for a model, behind a sequence number, in the order in which they are served."""
        return self.rows.first(tx, count, self.rows.columns["sequence"] > after, gpu_model_id=gpu_model_id)

    def others_are_served(self, tx: Tx, gpu_model_id: str) -> bool:
        """Whether those before this queue are being served."""
        return self.behind is not None and due.is_scheduled(tx.connection, self.behind.fill, gpu_model_id)

    def announce(self, tx: Tx, gpu_model_ids: Iterable[str]) -> None:
        """Let those who wait for these models be served, where there are any."""
        for gpu_model_id in gpu_model_ids:
            if self.rows.find(tx, gpu_model_id=gpu_model_id) is not None:
                tx.schedule(tx.now, self.fill, gpu_model_id)


CLUSTERS: Final = Queue.of("cluster.fill", "waiting_clusters", "cluster")
DEPLOYMENTS: Final = Queue.of("serving.fill", "waiting_deployments", "deployment", behind=CLUSTERS)


def announce_vacancy(tx: Tx, gpu_model_id: str) -> None:
    """GPUs of this model became free."""
    for queue in (CLUSTERS, DEPLOYMENTS):
        queue.announce(tx, (gpu_model_id,))


def announce_address(tx: Tx) -> None:
    """An address became free, which whoever waits may have lacked."""
    for queue in (CLUSTERS, DEPLOYMENTS):
        queue.announce(tx, dict.fromkeys(each.gpu_model_id for each in queue.rows.all(tx)))
