"""Where the containers of a cluster answer: at the address of their Pod, or through the API server from outside.

Of a workload that has replicas, one after another answers, of those that are healthy.
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
    """The API server, for a cloud that runs outside of the cluster."""

    url: str
    proxied: Proxied


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Of one cluster; `outside` is None for a cloud that runs in it."""

    pod: FindPod
    instance: str
    outside: Outside | None
    _turns: dict[str, dict[str, None]] = field(default_factory=dict)
    """The names of the Pods of replicas, by what they belong to, in the order of their turns."""

    def moved(self, pod: Pod) -> None:
        """A Pod of this cloud came, changed or went."""
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
        """The Pod of a pod or a replica; None while its container does not run, or if it is not this cloud's."""
        pod = self.pod(namespace_of(organization_id), name_of(holder_id))
        if pod is None or pod.metadata.labels.get(INSTANCE) != self.instance or not _runs(pod):
            return None
        return pod

    def way(self, organization_id: str, workload_id: str, port: int, uid: str | None = None) -> Way | None:
        """Where a workload answers at a port of its container, or of the healthy replica whose turn it is.

        With `uid` that of this very Pod, healthy or not. None while none runs that is this cloud's.
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
    """A pod answers as soon as it runs, a replica while it is healthy."""
    return REPLICA_ID not in pod.metadata.labels or is_ready(pod, CONTAINER)


def _runs(pod: Pod) -> bool:
    if pod.metadata.deletion_timestamp is not None or pod.status.pod_ip is None:
        return False
    return any(each.name == CONTAINER and each.state.running is not None for each in pod.status.container_statuses)
