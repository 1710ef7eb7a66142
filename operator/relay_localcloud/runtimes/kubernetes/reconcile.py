"""Makes a cluster match the rows, and reports to the rows what the cluster shows: level-triggered, per holder.

A turn compares one row with one Pod, and carries out at most one step of `situations.py`. It is due when the row or the
Pod changed, and every LOOK_SECONDS in any case, so a kill loses nothing.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final, NoReturn, Protocol

from relay_kube.errors import KubeError, Refused
from relay_kube.kube import Kube
from relay_kube.mirror import Mirror
from relay_localcloud.capacity.catalog import DISK_IMAGES
from relay_localcloud.clock.clock import kept_time
from relay_localcloud.kernel.disk import PATIENCE_SECONDS, Unwritable
from relay_localcloud.kernel.instants import seconds
from relay_localcloud.kernel.store import Store, Tx
from relay_localcloud.runtimes.kubernetes import fleet, holders, holdings, turns
from relay_localcloud.runtimes.kubernetes.cordons import NODES, Cordons
from relay_localcloud.runtimes.kubernetes.due import NOBODY, Due
from relay_localcloud.runtimes.kubernetes.holdings import HOLDINGS, Holding, Standing
from relay_localcloud.runtimes.kubernetes.kubevirt import Vms
from relay_localcloud.runtimes.kubernetes.names import CLOUD_ID, INSTANCE, REPLICA_ID, is_vm, name_of
from relay_localcloud.runtimes.kubernetes.nodes import Gpu, NodeFact, NodeSeen, are_closed, of_node
from relay_localcloud.runtimes.kubernetes.objects import Objects, VolumeLost
from relay_localcloud.runtimes.kubernetes.observed import Node, Pod
from relay_localcloud.runtimes.kubernetes.organizations import Organizations
from relay_localcloud.runtimes.kubernetes.pod_events import PodEvent, PodEvents
from relay_localcloud.runtimes.kubernetes.pods import Pods
from relay_localcloud.runtimes.kubernetes.situations import Step, holder_of, is_known, labelled
from relay_localcloud.runtimes.kubernetes.tenants import Gateway
from relay_localcloud.runtimes.kubernetes.turns import Offer, Seen, Turn
from relay_localcloud.runtimes.kubernetes.unused import Meant, Unused
from relay_localcloud.runtimes.kubernetes.volume_snapshots import VolumeSnapshots
from relay_localcloud.runtimes.runtime import Labelled

_log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 10.0
"""The interval of comparing everything, which catches what only time changes, and what failed."""
AGAIN_SECONDS: Final = 1.0
"""The delay before a failed turn is retried: a new namespace accepts no Pods for a moment, a disk may be full."""
AT_ONCE: Final = 8
"""How many holders take their turns concurrently."""
AWAY_SECONDS: Final = 90.0
"""How long a region's API server may be silent before the region's nodes count as silent."""


def _wall() -> int:
    return time.time_ns() // 1000


class Regions(Protocol):
    """All clusters of the cloud, as one of them needs to know them."""

    def changed(self, holder_id: str) -> None:
        """Give a holder a turn on every cluster."""
        ...

    def pod_changed(self, pod: Pod) -> None:
        """Take note of a Pod of this cloud that appeared, changed or disappeared."""
        ...

    def may_run(self, cluster: str, namespace: str, name: str) -> bool:
        """Whether a Pod of this cloud may exist on a cluster."""
        ...


class Reconciler:
    """Makes one cluster match the rows; `is_region` if it is one of several.

    `gateway` asks the cluster where requests to its Pods come from, as `offer` is to say. A region whose API server is
    silent for `away_seconds` has silent nodes.
    """

    def __init__(
        self,
        store: Store,
        kube: Kube,
        offer: Offer,
        gateway: Callable[[], Awaitable[Gateway]],
        table: Sequence[Gpu],
        regions: Regions,
        *,
        is_region: bool,
        away_seconds: float = AWAY_SECONDS,
    ) -> None:
        self._store = store
        self._gateway = gateway
        self._objects = Objects(kube, offer.terms.instance)
        self._organizations = Organizations(store, self._objects)
        self._offer = offer
        self._table = table
        self._regions = regions
        self._is_region, self._away_seconds = is_region, away_seconds
        self._pods = Pods(kube, self._pod_changed)
        self._nodes = Mirror(kube, NODES, Node.model_validate, lambda _: self.nodes_changed())
        self._cordons = Cordons(kube, self._nodes, offer.terms.instance)
        self._unused = Unused(Meant(offer.terms.node_selector, offer.resources))
        self._events = PodEvents(kube, self._event_came)
        self._vms = Vms(kube, offer.terms.instance, self._pod_changed)
        self.snapshots = VolumeSnapshots(store, kube, offer.cluster, offer.terms.instance)
        self._mirrors = (self._pods.mirror, self._nodes, self._events.mirror)
        self._due = Due()
        self._under_way = set[str]()
        self._nodes_due = True
        self._wake = asyncio.Event()
        self._met = set[str]()
        """The holders that have had a turn in this process."""
        self._missing = dict[str, float]()
        """When the cluster was last heard before a list that lacks a holder's Pod, until the holder's next turn."""
        with store.transaction(at=0) as tx:
            self._away_since = kept_time(tx)
        self._swept: set[tuple[str, int, Standing]] = set()
        self._seen = Seen({}, self._there, self._pods.on, self._events.of, regions.may_run, _wall)

    def _there(self, namespace: str, name: str) -> Pod | None:
        return self._vms.get(namespace, name) if is_vm(name) else self._pods.mirror.get(namespace, name)

    @property
    def offers_vms(self) -> bool:
        """Whether the cluster can run VMs now."""
        return self._vms.are_offered

    def pod_of_vm(self, vm: Pod) -> Pod | None:
        """The Pod of KubeVirt's in which a VM runs, the last one if it has several."""
        holder_id, node = vm.metadata.labels.get(CLOUD_ID), vm.spec.node_name or ""
        there = [each for each in self._pods.on(node) if each.metadata.labels.get(CLOUD_ID) == holder_id]
        own = [each for each in there if each.metadata.namespace == vm.metadata.namespace]
        return max(own, key=lambda each: each.metadata.creation_timestamp, default=None)

    def pod(self, namespace: str, name: str) -> Pod | None:
        """The Pod of this cloud with this name, or the VM as a Pod."""
        found = self._there(namespace, name)
        if found is None or found.metadata.labels.get(INSTANCE) != self._offer.terms.instance:
            return None
        return found

    def labelled(self) -> Iterator[Labelled]:
        """The Pods and VMs that bear the mark of this cloud."""
        return labelled(self._offer.cluster, chain(self._pods.mirror, self._vms), self._offer.terms.instance)

    def knows(self, name: str) -> bool:
        """Whether the cluster has listed its Pods, or its VMs if that is a VM's name."""
        return self._vms.are_listed if is_vm(name) else self._pods.mirror.is_listed

    async def run(self) -> NoReturn:
        """Reconcile until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for mirror in self._mirrors:
                tasks.create_task(mirror.run())
            if DISK_IMAGES:  # otherwise the account needs no rights to what VMs are made of
                tasks.create_task(self._vms.run())
                tasks.create_task(self.snapshots.run())
            try:
                async with asyncio.timeout(self._away_seconds if self._is_region else None):
                    await self._is_there()
            except TimeoutError:
                self._written(self._compare_nodes)
                await self._is_there()
            tasks.create_task(self._look_now_and_then())
            tasks.create_task(self._look_at_organizations())
            tasks.create_task(self._cordons.run())
            while True:
                await self._wake.wait()
                self._wake.clear()
                if self._nodes_due:
                    self._look_at_nodes()
                for holder_id in self._next():
                    tasks.create_task(self._take_turn(holder_id))

    async def _is_there(self) -> None:
        """Return once the cluster has said what this needs to know of it."""
        for mirror in self._mirrors:
            await mirror.listed()
        await self._ask_for_the_gateway()

    async def _ask_for_the_gateway(self) -> None:
        """Return once the cluster has said where requests to its Pods come from."""
        while True:
            try:
                self._offer = replace(self._offer, gateway=await self._gateway())
            except KubeError as error:
                _log.warning("the cluster %s cannot be asked: %s", self._offer.cluster, error)
                await asyncio.sleep(LOOK_SECONDS)
            else:
                return

    async def _look_at_organizations(self) -> NoReturn:
        while True:
            try:
                await self._organizations.look(self._offer)
            except Unwritable as error:
                _log.warning("What organizations need waits for the disk: %s", error)
            await asyncio.sleep(LOOK_SECONDS)
            await self._ask_for_the_gateway()

    async def _look_now_and_then(self) -> NoReturn:
        while True:
            self.nodes_changed()
            await asyncio.sleep(LOOK_SECONDS if self._written(self._look_at_everything) else PATIENCE_SECONDS)

    def _next(self) -> list[str]:
        """The holders whose turns begin now; a holder takes one turn at a time."""
        if not self._due.is_sorted and not self._written(self._find_owners):
            self._due.sort(lambda _: NOBODY)
        now = self._due.take(AT_ONCE - len(self._under_way), self._under_way)
        self._under_way.update(now)
        return now

    def _find_owners(self) -> None:
        with self._store.transaction(at=0) as tx:
            self._due.sort(lambda holder_id: _owner(tx, holder_id))

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
            everyone = [each for each in HOLDINGS.all(tx) if self._concerns(each)]
        self._met &= {each.id for each in everyone}
        self._swept &= {(each.id, each.start, each.standing) for each in everyone}
        for holding in everyone:
            if (holding.id, holding.start, holding.standing) not in self._swept:
                self._due.add(holding.id, holding.organization_id)
        self._wake.set()

    def _concerns(self, holding: Holding) -> bool:
        return holding.cluster in {None, self._offer.cluster}

    def nodes_changed(self) -> None:
        """Compare all Nodes with the nodes of the cloud."""
        self._nodes_due = True
        self._wake.set()

    def _look_at_nodes(self) -> None:
        self._nodes_due = False
        if not self._written(self._compare_nodes):
            asyncio.get_running_loop().call_later(PATIENCE_SECONDS, self.nodes_changed)

    def _compare_nodes(self) -> None:
        with self._store.transaction() as tx:
            models = fleet.models(tx, self._offer.cluster)
            facts = list(self._node_facts(holdings.starts(tx), models))
            nodes = [fact for fact in facts if isinstance(fact, NodeSeen)]
            machines = {node.machine.name: node.machine for node in nodes}
            cordoned = {node.machine.name for node in nodes if node.cordoned}
            closed = are_closed(self._nodes, self._offer.terms.node_selector)
            ahead = turns.ahead(tx, _wall())
            fleet.look(tx, self._offer.cluster, facts, is_region=self._is_region, ahead=ahead)
            held = fleet.held(tx, self._offer.cluster)
            before = (self._seen.machines.keys(), self._seen.cordoned, self._seen.closed)
            same = (machines.keys(), cordoned, closed) == before
            affected = [] if same else HOLDINGS.all(tx, standing=Standing.RUN)
        self._seen = replace(self._seen, machines=machines, cordoned=cordoned, closed=closed)
        self._cordons.want(held)
        self._unused.say(self._nodes, facts, models)
        for holding in filter(self._concerns, affected):
            self._due.add(holding.id, holding.organization_id)

    def _node_facts(self, starts: Mapping[str, int], models: Mapping[str, str]) -> Iterator[NodeFact]:
        if self._is_region and self._nodes.unheard_seconds > self._away_seconds:
            return
        instance = self._offer.terms.instance
        for node in self._nodes:
            name = node.metadata.name
            strangers = [pod for pod in self._pods.on(name) if not is_known(pod, instance, starts)]
            yield of_node(node, strangers, self._table, instance, models.get(name))

    async def _take_turn(self, holder_id: str) -> None:
        try:
            await self._turn(holder_id)
        except Unwritable as error:
            self._try_again(holder_id, error)
        except Exception:  # noqa: BLE001 - a defect holds up one holder, which has its turn again, and no other
            _log.exception("%s: the local cloud fails at this, and goes on with the others", holder_id)
        finally:
            self._under_way.discard(holder_id)
            self._wake.set()

    async def _turn(self, holder_id: str) -> None:
        if is_vm(name_of(holder_id)) and not self._vms.are_listed:
            return
        with self._store.transaction() as tx:
            seen = replace(self._seen, away_since=self._unseen_since(holder_id, tx.now))
            turn = turns.take(tx, holder_id, seen, self._offer)
        self._met.add(holder_id)
        self._missing.pop(holder_id, None)
        if turn is None or turn.step is Step.NOTHING:
            return
        try:
            made = await self._objects.carry_out(turn)
        except KubeError as error:
            self._failed(turn, error)
        except VolumeLost:
            with self._store.transaction() as tx:
                turns.lost_volume(tx, turn)
        else:
            self._done(turn)
            if made is not None:
                (self._vms if is_vm(turn.name) else self._pods.mirror).wrote(made)

    def _unseen_since(self, holder_id: str, now: int) -> int | None:
        """Since when the Pod of a holder may be gone unseen, on the cloud's clock; None if its end would be seen."""
        if holder_id not in self._met:
            return self._away_since
        heard_at = self._missing.get(holder_id)
        return None if heard_at is None else now - seconds(time.monotonic() - heard_at)

    def _failed(self, turn: Turn, error: KubeError) -> None:
        self._try_again(turn.holding.id, error)
        is_final = isinstance(error, Refused)
        with self._store.transaction() as tx:
            if is_final or error.status >= 500:
                turns.refused(tx, turn, str(error), is_final=is_final)
            else:
                turns.unanswered(tx, turn)

    def _try_again(self, holder_id: str, why: Exception) -> None:
        _log.info("%s: %s; it is tried again", holder_id, why)
        asyncio.get_running_loop().call_later(AGAIN_SECONDS, self.changed, holder_id)

    def _done(self, turn: Turn) -> None:
        if turn.step is not Step.SWEEP:
            return
        holding = turn.holding
        if turn.leaves:
            with self._store.transaction() as tx:
                holdings.left(tx, holding.id, self._offer.cluster)
            self._regions.changed(holding.id)
            return
        if holding.standing is Standing.END:
            with self._store.transaction() as tx:
                holdings.swept(tx, holding.id)
        self._swept.add((holding.id, holding.start, holding.standing))

    def changed(self, holder_id: str) -> None:
        """Give a holder a turn."""
        self._due.add(holder_id)
        self._wake.set()

    def _pod_changed(self, pod: Pod) -> None:
        labels = pod.metadata.labels
        if labels.get(INSTANCE) == self._offer.terms.instance and CLOUD_ID in labels:
            heard_at = (self._vms if is_vm(pod.metadata.name) else self._pods.mirror).missing_since
            if heard_at is not None:
                self._missing[holder_of(pod, self._offer.terms.instance)] = heard_at
            for holder_id in {labels[CLOUD_ID], labels.get(REPLICA_ID, labels[CLOUD_ID])}:
                self._regions.changed(holder_id)
            self._regions.pod_changed(pod)

    def _event_came(self, event: PodEvent) -> None:
        pod = self._pods.mirror.get(event.involved.namespace, event.involved.name)
        if pod is not None:
            self._pod_changed(pod)


def _owner(tx: Tx, holder_id: str) -> str:
    holding = HOLDINGS.find(tx, id=holder_id)
    if holding is not None and holding.organization_id is not None:
        return holding.organization_id
    holder = holders.find(tx, holder_id)
    return NOBODY if holder is None else holder.organization_id
