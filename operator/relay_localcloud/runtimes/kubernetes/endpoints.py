"""Where the containers of a cluster answer: at the address of their Pod, or through the API server from outside."""

from collections.abc import Callable
from dataclasses import dataclass

from relay_localcloud.runtimes.kubernetes.names import CONTAINER, INSTANCE, name_of, namespace_of
from relay_localcloud.runtimes.kubernetes.observed import Pod
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

    def way(self, organization_id: str, workload_id: str, port: int) -> Way | None:
        """Where a workload answers at a port of its container; None while that does not run, or is not this cloud's."""
        namespace, name = namespace_of(organization_id), name_of(workload_id)
        pod = self.pod(namespace, name)
        if pod is None or pod.metadata.labels.get(INSTANCE) != self.instance or not _runs(pod):
            return None
        called, uid = f"Port {port} of its container", pod.metadata.uid
        if self.outside is not None:
            url = f"{self.outside.url}/api/v1/namespaces/{namespace}/pods/{name}:{port}/proxy"
            return Way(url, called, uid, self.outside.proxied)
        address = str(pod.status.pod_ip)
        return Way(f"http://{f'[{address}]' if ':' in address else address}:{port}", called, uid)


def _runs(pod: Pod) -> bool:
    if pod.metadata.deletion_timestamp is not None or pod.status.pod_ip is None:
        return False
    return any(each.name == CONTAINER and each.state.running is not None for each in pod.status.container_statuses)
