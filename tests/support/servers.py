"""The command lines of the three servers of a control plane, and the kubeconfig that leads to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from tests.support.process import free_port

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.binaries import ServerBinaries

# What tests and the demo lean on: namespaces that go away, owners' dependents too, ServiceAccounts, aggregated roles.
_CONTROLLERS = (
    "namespace-controller",
    "garbage-collector-controller",
    "serviceaccount-controller",
    "clusterrole-aggregation-controller",
)


def etcd_command(binaries: ServerBinaries, folder: Path, url: str) -> list[str]:
    """etcd on a client URL; its data in `folder/etcd`."""
    peers = f"http://127.0.0.1:{free_port()}"
    return [
        *binaries.etcd,
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        "--unsafe-no-fsync",  # SIGKILL loses nothing by it, and a power cut is not what the tests are about.
        "--log-level=warn",
    ]


def apiserver_command(binaries: ServerBinaries, folder: Path, etcd_url: str, url: str) -> list[str]:
    """kube-apiserver with RBAC and an audit log of writes; certificates, keys and tokens from the folder."""
    return [
        *binaries.apiserver,
        f"--etcd-servers={etcd_url}",
        "--bind-address=127.0.0.1",
        f"--secure-port={url.rpartition(':')[2]}",
        f"--tls-cert-file={folder / 'apiserver.crt'}",
        f"--tls-private-key-file={folder / 'apiserver.key'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={folder / 'sa.pub'}",
        f"--service-account-signing-key-file={folder / 'sa.key'}",
        "--service-cluster-ip-range=10.0.0.0/24",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        f"--audit-policy-file={folder / 'audit-policy.yaml'}",
        f"--audit-log-path={folder / 'audit.log'}",
        "--endpoint-reconciler-type=none",  # There is no Service to reach this server by.
        "--profiling=false",
    ]


def controller_manager_command(binaries: ServerBinaries, folder: Path) -> list[str]:
    """kube-controller-manager with the few controllers that matter where no Pods run."""
    return [
        *binaries.controller_manager,
        f"--kubeconfig={folder / 'kubeconfig'}",
        f"--service-account-private-key-file={folder / 'sa.key'}",
        "--leader-elect=false",
        "--secure-port=0",
        f"--controllers={','.join(_CONTROLLERS)}",
        # Emptying a namespace is some sixty calls: the defaults would take seconds for each.
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    ]


def write_kubeconfig(path: Path, cluster: dict[str, str], token: str, namespace: str) -> None:
    """A kubeconfig with one context; `cluster` as kubeconfigs have it (`server`, `certificate-authority-data`)."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "relay",
        "clusters": [{"name": "relay", "cluster": cluster}],
        "users": [{"name": "relay", "user": {"token": token}}],
        "contexts": [{"name": "relay", "context": {"cluster": "relay", "user": "relay", "namespace": namespace}}],
    }
    write_private(path, yaml.safe_dump(config, sort_keys=False))


def write_private(path: Path, text: str) -> None:
    """Writes a file that only its owner can read."""
    path.touch(mode=0o600)
    path.write_text(text)
