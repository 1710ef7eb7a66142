"""One paged list of an account's clusters, shared by all that ask about the same time."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from relay_client import Cloud, list_clusters
from relay_wire.clusters import ClusterSummary


@dataclass(slots=True)
class _Shared:
    """A list under way or done, and when it was begun (monotonic seconds)."""

    begun: float
    task: asyncio.Task[Mapping[str, ClusterSummary]]


@dataclass(slots=True)
class ClusterLists:
    """Lists by cloud connection; a connection that ends takes its list along."""

    max_age: float
    clock: Callable[[], float]
    _shared: "WeakKeyDictionary[Cloud, _Shared]" = field(default_factory=WeakKeyDictionary)

    async def recent(self, cloud: Cloud) -> Mapping[str, ClusterSummary]:
        """All clusters by id, read at most `max_age` seconds ago. Raises CloudError; a failed list is not kept."""
        shared = self._shared.get(cloud)
        if shared is None or self.clock() - shared.begun > self.max_age or _failed(shared.task):
            shared = self._shared[cloud] = _Shared(self.clock(), asyncio.create_task(_list(cloud)))
        # Shielded: one caller's cancellation must not end what others wait for.
        return await asyncio.shield(shared.task)


async def _list(cloud: Cloud) -> Mapping[str, ClusterSummary]:
    return {cluster.id: cluster for cluster in (await list_clusters(cloud, limit=200)).items}


def _failed(task: asyncio.Task[Mapping[str, ClusterSummary]]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
