"""Notifies clusters and deployments that wait for room when some becomes free; clusters are served first."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Index, UniqueConstraint

from relay_localcloud.kernel import due
from relay_localcloud.kernel.rows import Rows
from relay_localcloud.kernel.store import Tx


@dataclass(frozen=True, slots=True)
class Waiting:
    """A cluster or deployment that waits for GPUs of a model, or, if that is empty, only for an address."""

    sequence: int  # of the cluster or deployment: the oldest is served first
    group_id: str
    gpu_model_id: str


@dataclass(frozen=True, slots=True)
class Queue:
    """Waiting clusters or deployments; `fill` is the kind of the due item that serves those that wait for a model."""

    fill: str
    rows: Rows[Waiting]
    ahead: "Queue | None" = None
    """The queue that is served first."""

    @classmethod
    def of(cls, fill: str, name: str, group: str, ahead: "Queue | None" = None) -> "Queue":
        """The queue of a kind."""
        by_model = Index(f"ix_{name}_gpu_model_id", "gpu_model_id")
        unique, named = UniqueConstraint(f"{group}_id"), {"group_id": f"{group}_id"}
        return cls(fill, Rows(Waiting, name, unique, by_model, named=named), ahead)

    def join(self, tx: Tx, sequence: int, group_id: str, gpu_model_id: str | None) -> None:
        """Add to the queue; one that waits already keeps its place."""
        self.rows.add(tx, sequence=sequence, group_id=group_id, gpu_model_id=gpu_model_id or "")

    def leave(self, tx: Tx, group_id: str) -> None:
        """Remove from the queue, if it is there."""
        self.rows.remove(tx, group_id=group_id)

    def waiting_for(self, tx: Tx, gpu_model_id: str, after: int, count: int) -> list[Waiting]:
        """The next `count` that wait for a model, after a sequence number, in the order in which they are served."""
        return self.rows.first(tx, count, self.rows.columns["sequence"] > after, gpu_model_id=gpu_model_id)

    def others_are_served(self, tx: Tx, gpu_model_id: str) -> bool:
        """Whether the queue before this one is being served."""
        return self.ahead is not None and due.is_scheduled(tx.connection, self.ahead.fill, gpu_model_id)

    def announce(self, tx: Tx, gpu_model_ids: Iterable[str]) -> None:
        """Have those that wait for these models served, if there are any."""
        for gpu_model_id in gpu_model_ids:
            if self.rows.find(tx, gpu_model_id=gpu_model_id) is not None:
                tx.schedule(tx.now, self.fill, gpu_model_id)


CLUSTERS: Final = Queue.of("cluster.fill", "waiting_clusters", "cluster")
DEPLOYMENTS: Final = Queue.of("serving.fill", "waiting_deployments", "deployment", ahead=CLUSTERS)


def announce_vacancy(tx: Tx, gpu_model_id: str) -> None:
    """Tell the queues that GPUs of this model became free."""
    for queue in (CLUSTERS, DEPLOYMENTS):
        queue.announce(tx, (gpu_model_id,))


def announce_address(tx: Tx) -> None:
    """Tell the queues that an address became free, which any of them may need."""
    for queue in (CLUSTERS, DEPLOYMENTS):
        queue.announce(tx, dict.fromkeys(each.gpu_model_id for each in queue.rows.all(tx)))
