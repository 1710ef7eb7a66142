"""The Kubernetes runtime: all clusters of a cloud, each a region if there are several.

A holder of GPUs is on one cluster at a time, that of its node. Each cluster is reconciled by itself, so one that is
away holds up no other.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from itertools import chain

from relay_kube.errors import Unavailable
from relay_kube.execution import Execution, executed
from relay_kube.forwarding import Forwarded, forwarded
from relay_kube.kube import Kube
from relay_localcloud.kernel.store import Store, Tx
from relay_localcloud.runtimes.kubernetes import fleet, logs
from relay_localcloud.runtimes.kubernetes.endpoints import Endpoints, Found, Outside
from relay_localcloud.runtimes.kubernetes.holdings import OnKubernetes
from relay_localcloud.runtimes.kubernetes.kubevirt import CONSOLE
from relay_localcloud.runtimes.kubernetes.names import CLOUD_ID, CONTAINER, is_vm, name_of, namespace_of
from relay_localcloud.runtimes.kubernetes.observed import Pod
from relay_localcloud.runtimes.kubernetes.reconcile import Reconciler
from relay_localcloud.runtimes.kubernetes.turns import NO_SNAPSHOTS, NO_VMS
from relay_localcloud.runtimes.runtime import Labelled, Noun, Way


@dataclass(frozen=True, slots=True)
class Region:
    """One cluster; `outside` is the way to its Pods for a cloud that does not run in it."""

    kube: Kube
    reconciler: Reconciler
    outside: Outside | None


class Regions:
    """The runtime; a `Containers`. Transactions use it through `runtime_of`; `lacking` is as in `OnKubernetes`."""

    def __init__(self, store: Store, lacking: Mapping[Noun, str]) -> None:
        self._store = store
        self._lacking = lacking
        self._regions: dict[str, Region] = {}
        self._endpoints = Endpoints(self._find)
        self.moved: Callable[[str], None] = lambda _: None
        """Called with a workload's id when its Pod appeared, changed or disappeared; the gateway sets it."""

    def join(self, name: str, region: Region) -> None:
        """Add a cluster; the first one also has what needs no node."""
        self._regions[name] = region

    async def run(self) -> None:
        """Reconcile all clusters until cancelled."""
        with self._store.transaction() as tx:
            fleet.look_at_none_but(tx, self._regions)
        async with asyncio.TaskGroup() as tasks:
            for region in self._regions.values():
                tasks.create_task(region.reconciler.run())

    def runtime_of(self, tx: Tx) -> OnKubernetes:
        """The runtime of one transaction."""
        clusters = [region.reconciler for region in self._regions.values()]
        without_vms = {} if all(each.offers_vms for each in clusters) else {Noun.VM: NO_VMS}
        has_snapshots = all(each.snapshots.are_offered for each in clusters)
        without_snapshots = {} if has_snapshots else {Noun.SNAPSHOT: NO_SNAPSHOTS}
        return OnKubernetes(tx, self, {**self._lacking, **without_vms, **without_snapshots})

    def changed(self, holder_id: str) -> None:
        """Give a holder a turn on every cluster."""
        for region in self._regions.values():
            region.reconciler.changed(holder_id)

    def nodes_changed(self) -> None:
        """Compare the nodes of the cloud with the Nodes of every cluster."""
        for region in self._regions.values():
            region.reconciler.nodes_changed()

    def snapshots_changed(self) -> None:
        """Compare the snapshots of VMs with those of every cluster."""
        for region in self._regions.values():
            region.reconciler.snapshots.changed()

    def labelled(self) -> Iterator[Labelled]:
        """The Pods of every cluster that bear the mark of this cloud."""
        return chain.from_iterable(region.reconciler.labelled() for region in self._regions.values())

    def pod_changed(self, pod: Pod) -> None:
        """Take note of a Pod of this cloud that appeared, changed or disappeared."""
        self._endpoints.moved(pod)
        self.moved(pod.metadata.labels[CLOUD_ID])

    def may_run(self, cluster: str, namespace: str, name: str) -> bool:
        """Whether a Pod or VM of this cloud may exist on a cluster: always, until the cluster has listed its kind."""
        region = self._regions.get(cluster)
        return region is None or not region.reconciler.knows(name) or region.reconciler.pod(namespace, name) is not None

    def way(self, organization_id: str, workload_id: str, port: int, uid: str | None = None) -> Way | None:
        """The address of a workload's container, as `Endpoints.way` returns it."""
        return self._endpoints.way(organization_id, workload_id, port, uid)

    def log(self, organization_id: str, workload_id: str, *, tail: int | None, follow: bool) -> AsyncIterator[bytes]:
        """Yields the output of its container; nothing without one. Raises ApiError 503."""
        namespace, name = namespace_of(organization_id), name_of(workload_id)
        found = self._find(namespace, name)
        region = next(iter(self._regions.values())) if found is None else self._regions[found.cluster]
        if found is None or not is_vm(found.pod.metadata.name):
            return logs.log_of(region.kube, namespace, name, CONTAINER, tail, follow=follow)
        return logs.log_of(region.kube, namespace, found.through.metadata.name, CONSOLE, tail, follow=follow)

    def execute(
        self, organization_id: str, workload_id: str, command: Sequence[str], *, terminal: bool
    ) -> AbstractAsyncContextManager[Execution]:
        """Run a command in its container. Raises KubeError."""
        found = self._running(organization_id, workload_id)
        pod, kube = found.pod.metadata, self._regions[found.cluster].kube
        return executed(kube, pod.namespace, pod.name, CONTAINER, command, terminal=terminal)

    def forward(self, organization_id: str, workload_id: str, port: int) -> AbstractAsyncContextManager[Forwarded]:
        """Connect to a port of its container. Raises KubeError."""
        found = self._running(organization_id, workload_id)
        pod, kube = found.pod.metadata, self._regions[found.cluster].kube
        return forwarded(kube, pod.namespace, found.through.metadata.name, port)

    def _running(self, organization_id: str, workload_id: str) -> Found:
        found = self._endpoints.running(organization_id, workload_id)
        if found is None:
            raise Unavailable(0, "NotRunning", "it does not run just now")
        return found

    def _find(self, namespace: str, name: str) -> Found | None:
        for cluster, region in self._regions.items():
            pod = region.reconciler.pod(namespace, name)
            if pod is not None:
                through = region.reconciler.pod_of_vm(pod) if is_vm(name) else pod
                return Found(pod, cluster, region.outside, through or pod)
        return None
