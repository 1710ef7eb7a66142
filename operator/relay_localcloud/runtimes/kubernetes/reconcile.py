"""Makes a cluster match the rows, and reports to the rows what the cluster shows: level-triggered, per holder.

A turn compares one row with one Pod, and carries out at most one step of `situations.py`. It is due when the row or the
Pod changed, and every LOOK_SECONDS in any case, so a kill loses nothing.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import islice
from typing import Final, NoReturn

from relay_kube.execution import Execution, executed
from relay_kube.forwarding import Forwarded, forwarded
from relay_kube.kube import PODS, Kube, KubeError, Refused, ResourceType, Unavailable
from relay_kube.mirror import Mirror
from relay_localcloud.kernel.disk import PATIENCE_SECONDS, Unwritable
from relay_localcloud.kernel.store import Store, Tx
from relay_localcloud.runtimes.kubernetes import fleet, holdings, logs, turns
from relay_localcloud.runtimes.kubernetes.endpoints import Endpoints, Outside
from relay_localcloud.runtimes.kubernetes.holdings import HOLDINGS, OnKubernetes, Standing
from relay_localcloud.runtimes.kubernetes.names import CLOUD_ID, CONTAINER, INSTANCE, REPLICA_ID
from relay_localcloud.runtimes.kubernetes.nodes import Gpu, NodeFact, NodeSeen, of_node
from relay_localcloud.runtimes.kubernetes.objects import Objects
from relay_localcloud.runtimes.kubernetes.observed import Metadata, Node, Pod
from relay_localcloud.runtimes.kubernetes.pod_events import PodEvent, PodEvents
from relay_localcloud.runtimes.kubernetes.situations import Step
from relay_localcloud.runtimes.kubernetes.turns import Offer, Seen, Turn
from relay_localcloud.runtimes.runtime import Way

_log = logging.getLogger(__name__)

NODES: Final = ResourceType("nodes", namespaced=False)
LOOK_SECONDS: Final = 10.0
"""The interval of comparing everything, which catches what only time changes, and what failed."""
AGAIN_SECONDS: Final = 1.0
"""The delay before a failed turn is retried: a new namespace accepts no Pods for a moment, a disk may be full."""
AT_ONCE: Final = 8
"""How many holders take their turns concurrently."""


class Reconciler:
    """The Kubernetes runtime of one cluster; a `Containers`. Transactions use it through `runtime_of`.

    `outside` is the way to Pods for a cloud that runs outside the cluster; None if it runs inside.
    """

    def __init__(
        self, store: Store, kube: Kube, offer: Offer, table: Sequence[Gpu], outside: Outside | None = None
    ) -> None:
        self._store = store
        self._kube = kube
        self._objects = Objects(kube, offer.terms.instance)
        self._offer = offer
        self._table = table
        self._lacking = turns.lacking(offer)
        self._pods = Mirror(kube, PODS, Pod.model_validate, self._pod_changed)
        self._nodes = Mirror(kube, NODES, Node.model_validate, lambda _: self._nodes_are_due())
        self._events = PodEvents(kube, self._event_came)
        self._due: dict[str, None] = {}
        self._under_way = set[str]()
        self._nodes_due = True
        self._wake = asyncio.Event()
        self._swept: set[tuple[str, int, Standing]] = set()
        self._seen = Seen({}, self._pods.get, self._events.of)
        self._endpoints = Endpoints(self._pods.get, offer.terms.instance, outside)
        self.moved: Callable[[str], None] = lambda _: None
        """Called with a workload's id when its Pod appeared, changed or disappeared; the gateway sets it."""

    def runtime_of(self, tx: Tx) -> OnKubernetes:
        """The runtime of one transaction."""
        return OnKubernetes(tx, self._changed, self._lacking)

    def way(self, organization_id: str, workload_id: str, port: int, uid: str | None = None) -> Way | None:
        """The address of a workload's container, as `Endpoints.way` returns it."""
        return self._endpoints.way(organization_id, workload_id, port, uid)

    def log(self, organization_id: str, workload_id: str, *, tail: int | None, follow: bool) -> AsyncIterator[bytes]:
        """Yields the output of its container; nothing without one. Raises ApiError 503."""
        return logs.log_of(self._kube, organization_id, workload_id, tail, follow=follow)

    def execute(
        self, organization_id: str, workload_id: str, command: Sequence[str], *, terminal: bool
    ) -> AbstractAsyncContextManager[Execution]:
        """Run a command in its container. Raises KubeError."""
        pod = self._running(organization_id, workload_id)
        return executed(self._kube, pod.namespace, pod.name, CONTAINER, command, terminal=terminal)

    def forward(self, organization_id: str, workload_id: str, port: int) -> AbstractAsyncContextManager[Forwarded]:
        """Connect to a port of its container. Raises KubeError."""
        pod = self._running(organization_id, workload_id)
        return forwarded(self._kube, pod.namespace, pod.name, port)

    def _running(self, organization_id: str, workload_id: str) -> Metadata:
        pod = self._endpoints.running(organization_id, workload_id)
        if pod is None:
            raise Unavailable(0, "NotRunning", "it does not run just now")
        return pod.metadata

    async def run(self) -> NoReturn:
        """Reconcile until cancelled."""
        mirrors = (self._pods, self._nodes, self._events.mirror)
        async with asyncio.TaskGroup() as tasks:
            for mirror in mirrors:
                tasks.create_task(mirror.run())
            for mirror in mirrors:
                await mirror.listed()
            tasks.create_task(self._look_now_and_then())
            while True:
                await self._wake.wait()
                self._wake.clear()
                if self._nodes_due:
                    self._look_at_nodes()
                for holder_id in self._next():
                    tasks.create_task(self._take_turn(holder_id))

    async def _look_now_and_then(self) -> NoReturn:
        while True:
            self._nodes_are_due()
            await asyncio.sleep(LOOK_SECONDS if self._written(self._look_at_everything) else PATIENCE_SECONDS)

    def _next(self) -> list[str]:
        """The holders whose turns begin now, the longest due first; a holder takes one turn at a time."""
        waiting = (each for each in self._due if each not in self._under_way)
        now = list(islice(waiting, AT_ONCE - len(self._under_way)))
        for holder_id in now:
            del self._due[holder_id]
        self._under_way.update(now)
        return now

    def _written(self, change: Callable[[], None]) -> bool:
        """Whether the disk took a change; if not, it is to be made again after PATIENCE_SECONDS."""
        try:
            change()
        except Unwritable as error:
            _log.warning("What Kubernetes shows waits for the disk: %s", error)
            return False
        return True

    def _look_at_everything(self) -> None:
        with self._store.transaction() as tx:
            holdings.forget(tx)
            everyone = HOLDINGS.all(tx)
        self._swept &= {(each.id, each.start, each.standing) for each in everyone}
        for holding in everyone:
            if (holding.id, holding.start, holding.standing) not in self._swept:
                self._due.setdefault(holding.id)
        self._wake.set()

    def _nodes_are_due(self) -> None:
        self._nodes_due = True
        self._wake.set()

    def _look_at_nodes(self) -> None:
        self._nodes_due = False
        if not self._written(self._compare_nodes):
            asyncio.get_running_loop().call_later(PATIENCE_SECONDS, self._nodes_are_due)

    def _compare_nodes(self) -> None:
        facts = list(self._node_facts())
        machines = {fact.machine.name: fact.machine for fact in facts if isinstance(fact, NodeSeen)}
        with self._store.transaction() as tx:
            fleet.look(tx, facts)
            affected = HOLDINGS.all(tx, standing=Standing.RUN) if machines.keys() != self._seen.machines.keys() else []
        self._seen = Seen(machines, self._seen.pod, self._seen.events)
        for holding in affected:
            self._due.setdefault(holding.id)

    def _node_facts(self) -> Iterator[NodeFact]:
        pods: defaultdict[str | None, list[Pod]] = defaultdict(list)
        for pod in self._pods:
            pods[pod.spec.node_name].append(pod)
        for node in self._nodes:
            yield of_node(node, pods[node.metadata.name], self._offer.terms.instance, self._table)

    async def _take_turn(self, holder_id: str) -> None:
        try:
            await self._turn(holder_id)
        except Unwritable as error:
            self._try_again(holder_id, error)
        finally:
            self._under_way.discard(holder_id)
            self._wake.set()

    async def _turn(self, holder_id: str) -> None:
        with self._store.transaction() as tx:
            turn = turns.take(tx, holder_id, self._seen, self._offer)
        if turn is None or turn.step is Step.NOTHING:
            return
        try:
            made = await self._objects.carry_out(turn)
        except KubeError as error:
            self._failed(turn, error)
        else:
            self._done(turn)
            if made is not None:
                self._pods.wrote(made)

    def _failed(self, turn: Turn, error: KubeError) -> None:
        self._try_again(turn.holding.id, error)
        if isinstance(error, Refused):
            with self._store.transaction() as tx:
                turns.refused(tx, turn, str(error))

    def _try_again(self, holder_id: str, why: Exception) -> None:
        _log.info("%s: %s; it is tried again", holder_id, why)
        asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._changed, holder_id)

    def _done(self, turn: Turn) -> None:
        if turn.step is Step.SWEEP:
            self._swept.add((turn.holding.id, turn.holding.start, turn.holding.standing))

    def _changed(self, holder_id: str) -> None:
        self._due.setdefault(holder_id)
        self._wake.set()

    def _pod_changed(self, pod: Pod) -> None:
        labels = pod.metadata.labels
        if labels.get(INSTANCE) == self._offer.terms.instance and CLOUD_ID in labels:
            for holder_id in {labels[CLOUD_ID], labels.get(REPLICA_ID, labels[CLOUD_ID])}:
                self._changed(holder_id)
            self._endpoints.moved(pod)
            self.moved(labels[CLOUD_ID])

    def _event_came(self, event: PodEvent) -> None:
        pod = self._pods.get(event.involved.namespace, event.involved.name)
        if pod is not None:
            self._pod_changed(pod)
