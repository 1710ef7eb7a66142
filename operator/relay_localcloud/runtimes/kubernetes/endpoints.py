"""The addresses of a cluster's containers: of their Pods, or, from outside, paths of the API server's proxy.

Requests to a workload with replicas go to its healthy ones in turn.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from relay_localcloud.runtimes.kubernetes.names import (
    CLOUD_ID,
    CONTAINER,
    INSTANCE,
    REPLICA_ID,
    name_of,
    namespace_of,
)
from relay_localcloud.runtimes.kubernetes.observed import Pod, is_ready
from relay_localcloud.runtimes.runtime import Proxied, Way

FindPod = Callable[[str, str], Pod | None]


@dataclass(frozen=True, slots=True)
class Outside:
    """The API server as a proxy to Pods, for a cloud that runs outside the cluster."""

    url: str
    proxied: Proxied


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The endpoints of one cluster; `outside` is None for a cloud that runs in it."""

    pod: FindPod
    instance: str
    outside: Outside | None
    _turns: dict[str, dict[str, None]] = field(default_factory=dict)
    """The names of replicas' Pods in the order of their turns, by the id of their cluster or deployment."""

    def moved(self, pod: Pod) -> None:
        """Update the turns after a Pod of this cloud appeared, changed or disappeared."""
        labels, name = pod.metadata.labels, pod.metadata.name
        if REPLICA_ID not in labels:
            return
        turns = self._turns.setdefault(labels[CLOUD_ID], {})
        if self.pod(pod.metadata.namespace, name) is not None:
            turns.setdefault(name)
            return
        turns.pop(name, None)
        if not turns:
            del self._turns[labels[CLOUD_ID]]

    def running(self, organization_id: str, holder_id: str) -> Pod | None:
        """The Pod of a pod or replica; None while its container does not run, or if the Pod is not this cloud's."""
        pod = self.pod(namespace_of(organization_id), name_of(holder_id))
        if pod is None or pod.metadata.labels.get(INSTANCE) != self.instance or not _runs(pod):
            return None
        return pod

    def way(self, organization_id: str, workload_id: str, port: int, uid: str | None = None) -> Way | None:
        """The address of a workload's container at a port, or of its next healthy replica in turn.

        With `uid`, of exactly that Pod, healthy or not. None if no such Pod of this cloud runs.
        """
        turns = self._turns.get(workload_id, {})
        for name in [*turns] or [workload_id]:
            pod = self.running(organization_id, name)
            if pod is None:
                continue
            if uid is not None and pod.metadata.uid == uid:
                return self._to(pod, port)
            if uid is None and _takes_requests(pod):
                if name in turns:
                    turns[name] = turns.pop(name)
                return self._to(pod, port)
        return None

    def _to(self, pod: Pod, port: int) -> Way:
        namespace, name, uid = pod.metadata.namespace, pod.metadata.name, pod.metadata.uid
        called = f"Port {port} of its container"
        if self.outside is not None:
            url = f"{self.outside.url}/api/v1/namespaces/{namespace}/pods/{name}:{port}/proxy"
            return Way(url, called, uid, self.outside.proxied)
        address = str(pod.status.pod_ip)
        return Way(f"http://{f'[{address}]' if ':' in address else address}:{port}", called, uid)


def _takes_requests(pod: Pod) -> bool:
    """Whether requests go to a Pod that runs: always to that of a pod, to a replica's only while it is healthy."""
    return REPLICA_ID not in pod.metadata.labels or is_ready(pod, CONTAINER)


def _runs(pod: Pod) -> bool:
    if pod.metadata.deletion_timestamp is not None or pod.status.pod_ip is None:
        return False
    return any(each.name == CONTAINER and each.state.running is not None for each in pod.status.container_statuses)
