"""What an organization has on a cluster before anything of it runs: a namespace, a quota, and closed doors."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from relay_localcloud.runtimes.kubernetes.names import labels_of, namespace_of

Manifest = dict[str, JsonValue]

NAME: Final = "relay"
PRIVATE: Final = {
    "0.0.0.0/0": (
        "10.0.0.0/8",
        "100.64.0.0/10",
        "168.63.129.16/32",  # Azure's host, a public address that tells nodes their secrets
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "240.0.0.0/4",  # of nodes and Pods where the others did not suffice
    ),
    "::/0": ("64:ff9b::/96", "64:ff9b:1::/48", "fc00::/7", "fe80::/10"),
}
"""Every address, without those of clusters, of nodes and of their metadata, also translated to IPv6."""


@dataclass(frozen=True, slots=True)
class Gateway:
    """Who alone reaches workloads: Pods of a namespace by their labels, or addresses if it runs elsewhere."""

    namespace: str | None = None
    labels: Mapping[str, str] | None = None
    networks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Account:
    """The ServiceAccount as which a cloud asks the cluster that it runs in."""

    namespace: str
    name: str

    @property
    def role(self) -> str:
        """The ClusterRole that it has in the namespaces that it makes, and nowhere else."""
        return f"{self.namespace}-{self.name}-organization"


def namespace(instance: str, organization_id: str, *, privileged: bool) -> Manifest:
    """With the Pod security that holds in it; `privileged` is whether the administrator allows it."""
    level = "privileged" if privileged else "baseline"
    owned = labels_of(instance, organization_id, organization_id)
    labels: JsonValue = {**owned, "pod-security.kubernetes.io/enforce": level}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": namespace_of(organization_id), "labels": labels},
    }


def role_binding(instance: str, organization_id: str, account: Account) -> Manifest:
    """What the cloud may do in the namespace: it may bind this one role, so that it has no rights elsewhere."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": _metadata(instance, organization_id),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": account.role},
        "subjects": [{"kind": "ServiceAccount", "namespace": account.namespace, "name": account.name}],
    }


def quota(instance: str, organization_id: str, gpu_count: int, resources: Iterable[str]) -> Manifest:
    """No more GPUs of any sort than the organization may hold."""
    hard: JsonValue = {f"requests.{resource}": str(gpu_count) for resource in sorted(set(resources))}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": _metadata(instance, organization_id),
        "spec": {"hard": hard},
    }


def network_policy(instance: str, organization_id: str, gateway: Gateway) -> Manifest:
    """Nobody reaches its Pods but the gateway; they reach names and the internet, and nothing of the cluster."""
    dns: Manifest = {
        "to": [{"namespaceSelector": {}, "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}],
        "ports": [{"port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")],
    }
    internet: Manifest = {
        "to": [{"ipBlock": {"cidr": every, "except": list(excepted)}} for every, excepted in PRIVATE.items()]
    }
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _metadata(instance, organization_id),
        "spec": {
            "podSelector": {},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": admitted} for admitted in [_peers(gateway)] if admitted],
            "egress": [dns, internet],
        },
    }


def _peers(gateway: Gateway) -> list[JsonValue]:
    peers: list[JsonValue] = [{"ipBlock": {"cidr": network}} for network in gateway.networks]
    if gateway.namespace is not None:
        there: JsonValue = {"matchLabels": {"kubernetes.io/metadata.name": gateway.namespace}}
        which: JsonValue = {"matchLabels": dict(gateway.labels or {})}
        peers.append({"namespaceSelector": there, "podSelector": which})
    return peers


def _metadata(instance: str, organization_id: str) -> JsonValue:
    labels: JsonValue = dict(labels_of(instance, organization_id, organization_id))
    return {"name": NAME, "namespace": namespace_of(organization_id), "labels": labels}
