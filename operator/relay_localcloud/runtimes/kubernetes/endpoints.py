"""The addresses of containers: of their Pods, or, from outside their cluster, paths of the API server's proxy.

Requests to a workload with replicas go to its healthy ones in turn.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from relay_localcloud.runtimes.kubernetes.names import (
    CLOUD_ID,
    CONTAINER,
    REPLICA_ID,
    name_of,
    namespace_of,
)
from relay_localcloud.runtimes.kubernetes.observed import Pod, is_ready
from relay_localcloud.runtimes.runtime import Proxied, Way


@dataclass(frozen=True, slots=True)
class Outside:
    """The API server as a proxy to Pods, for a cloud that runs outside the cluster."""

    url: str
    proxied: Proxied


@dataclass(frozen=True, slots=True)
class Found:
    """A Pod of this cloud, or a VM as one, and the cluster that it is on.

    `outside` is None for a cloud that runs in that; `through` is the Pod whose ports lead to it, for a VM KubeVirt's.
    """

    pod: Pod
    cluster: str
    outside: Outside | None
    through: Pod


FindPod = Callable[[str, str], Found | None]
"""Finds a Pod of this cloud by its namespace and name."""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The endpoints of a cloud, on whatever cluster its Pods are."""

    find: FindPod
    _turns: dict[str, dict[str, None]] = field(default_factory=dict)
    """The names of replicas' Pods in the order of their turns, by the id of their cluster or deployment."""

    def moved(self, pod: Pod) -> None:
        """Update the turns after a Pod of this cloud appeared, changed or disappeared."""
        labels, name = pod.metadata.labels, pod.metadata.name
        if REPLICA_ID not in labels:
            return
        turns = self._turns.setdefault(labels[CLOUD_ID], {})
        if self.find(pod.metadata.namespace, name) is not None:
            turns.setdefault(name)
            return
        turns.pop(name, None)
        if not turns:
            del self._turns[labels[CLOUD_ID]]

    def running(self, organization_id: str, holder_id: str) -> Found | None:
        """The Pod of a pod or replica; None while its container does not run."""
        found = self.find(namespace_of(organization_id), name_of(holder_id))
        return found if found is not None and _runs(found) else None

    def way(self, organization_id: str, workload_id: str, port: int, uid: str | None = None) -> Way | None:
        """The address of a workload's container at a port, or of its next healthy replica in turn.

        With `uid`, of exactly that Pod, healthy or not. None if no such Pod of this cloud runs.
        """
        turns = self._turns.get(workload_id, {})
        for name in [*turns] or [workload_id]:
            found = self.running(organization_id, name)
            if found is None:
                continue
            if uid is not None and found.pod.metadata.uid == uid:
                return _way_to(found, port)
            if uid is None and _takes_requests(found.pod):
                if name in turns:
                    turns[name] = turns.pop(name)
                return _way_to(found, port)
        return None


def _way_to(found: Found, port: int) -> Way:
    through, uid, called = found.through, found.pod.metadata.uid, f"Port {port} of its container"
    if found.outside is not None:
        of_pod = f"api/v1/namespaces/{through.metadata.namespace}/pods/{through.metadata.name}"
        return Way(f"{found.outside.url}/{of_pod}:{port}/proxy", called, uid, found.outside.proxied)
    address = str(through.status.pod_ip)
    return Way(f"http://{f'[{address}]' if ':' in address else address}:{port}", called, uid)


def _takes_requests(pod: Pod) -> bool:
    """Whether requests go to a Pod that runs: always to that of a pod, to a replica's only while it is healthy."""
    return REPLICA_ID not in pod.metadata.labels or is_ready(pod, CONTAINER)


def _runs(found: Found) -> bool:
    if found.pod.metadata.deletion_timestamp is not None or found.through.status.pod_ip is None:
        return False
    said = found.pod.status.container_statuses
    return any(each.name == CONTAINER and each.state.running is not None for each in said)
