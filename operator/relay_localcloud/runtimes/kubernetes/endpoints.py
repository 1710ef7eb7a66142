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

    def running(self, organization_id: str, workload_id: str) -> Pod | None:
        """The Pod of a workload; None while its container does not run, or if it is not this cloud's."""
        pod = self.pod(namespace_of(organization_id), name_of(workload_id))
        if pod is None or pod.metadata.labels.get(INSTANCE) != self.instance or not _runs(pod):
            return None
        return pod

    def way(self, organization_id: str, workload_id: str, port: int) -> Way | None:
        """Where a workload answers at a port of its container; None while that does not run, or is not this cloud's."""
        pod = self.running(organization_id, workload_id)
        if pod is None:
            return None
        namespace, name = pod.metadata.namespace, pod.metadata.name
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
