"""The objects of an organization that precede its workloads: namespace, role binding, quota and network policy."""

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
        "168.63.129.16/32",  # Azure's host: a public address that serves nodes their secrets
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "240.0.0.0/4",  # used for nodes and Pods in clusters that need more addresses
    ),
    "::/0": ("64:ff9b::/96", "64:ff9b:1::/48", "fc00::/7", "fe80::/10"),
}
"""All addresses, each with exceptions: those of clusters, nodes and metadata services, also as translated to IPv6."""
DNS_PODS: Final = ("kube-dns", "node-local-dns")
"""The labels `k8s-app` of CoreDNS and of NodeLocal DNSCache."""
DNS_ON_NODE: Final = "169.254.20.10/32"
"""The address at which NodeLocal DNSCache listens on each node, as its documentation has it."""


@dataclass(frozen=True, slots=True)
class Gateway:
    """The only source that may reach workloads: Pods by namespace and labels, or networks if it runs elsewhere."""

    namespace: str | None = None
    labels: Mapping[str, str] | None = None
    networks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Account:
    """The ServiceAccount of a cloud that runs in its own cluster."""

    namespace: str
    name: str

    @property
    def role(self) -> str:
        """The ClusterRole that the account has only in the namespaces that it creates."""
        return f"{self.namespace}-{self.name}-organization"


def namespace(instance: str, organization_id: str, *, privileged: bool) -> Manifest:
    """The Namespace with its Pod security level; `privileged` is whether the administrator allows such containers."""
    level = "privileged" if privileged else "baseline"
    owned = labels_of(instance, organization_id, organization_id)
    labels: JsonValue = {**owned, "pod-security.kubernetes.io/enforce": level}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": namespace_of(organization_id), "labels": labels},
    }


def role_binding(instance: str, organization_id: str, account: Account) -> Manifest:
    """Grants the cloud its role in the namespace; it may bind only this role, so it has no such rights elsewhere.

    It is named after the role, since another account needs a binding of its own: a binding keeps its role.
    """
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": _metadata(instance, organization_id, account.role),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": account.role},
        "subjects": [{"kind": "ServiceAccount", "namespace": account.namespace, "name": account.name}],
    }


def quota(instance: str, organization_id: str, gpu_count: int, resources: Iterable[str]) -> Manifest:
    """Limits each GPU resource to as many GPUs as the organization may hold."""
    hard: JsonValue = {f"requests.{resource}": str(gpu_count) for resource in sorted(set(resources))}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": _metadata(instance, organization_id),
        "spec": {"hard": hard},
    }


def network_policy(instance: str, organization_id: str, gateway: Gateway) -> Manifest:
    """Admits only the gateway to the organization's Pods, and lets these reach only DNS and the internet."""
    dns_pods: JsonValue = {"matchExpressions": [{"key": "k8s-app", "operator": "In", "values": list(DNS_PODS)}]}
    dns: Manifest = {
        "to": [{"namespaceSelector": {}, "podSelector": dns_pods}, {"ipBlock": {"cidr": DNS_ON_NODE}}],
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


def _metadata(instance: str, organization_id: str, name: str = NAME) -> JsonValue:
    labels: JsonValue = dict(labels_of(instance, organization_id, organization_id))
    return {"name": name, "namespace": namespace_of(organization_id), "labels": labels}
