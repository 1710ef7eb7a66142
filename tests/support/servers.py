"""The command lines of a control plane's three servers, and its kubeconfig."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from tests.support.process import free_port

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.binaries import ServerBinaries

# What tests and the demo need: deletion of namespaces and of owners' dependents, ServiceAccounts, aggregated roles.
_CONTROLLERS = (
    "namespace-controller",
    "garbage-collector-controller",
    "serviceaccount-controller",
    "clusterrole-aggregation-controller",
)


def etcd_command(binaries: ServerBinaries, folder: Path, url: str) -> list[str]:
    """Returns the command line of etcd with this client URL and its data in `folder/etcd`."""
    peers = f"http://127.0.0.1:{free_port()}"
    return [
        *binaries.etcd,
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        "--unsafe-no-fsync",  # SIGKILL loses nothing without fsync, and no test is about power cuts.
        "--log-level=warn",
    ]


def apiserver_command(binaries: ServerBinaries, folder: Path, etcd_url: str, url: str) -> list[str]:
    """Returns the command line of kube-apiserver with RBAC and an audit log; keys and tokens are in the folder."""
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
        "--endpoint-reconciler-type=none",  # No Service leads to this server.
        "--profiling=false",
    ]


def controller_manager_command(binaries: ServerBinaries, folder: Path) -> list[str]:
    """Returns the command line of kube-controller-manager with the few controllers that matter without Pods."""
    return [
        *binaries.controller_manager,
        f"--kubeconfig={folder / 'kubeconfig'}",
        f"--service-account-private-key-file={folder / 'sa.key'}",
        "--leader-elect=false",
        "--secure-port=0",
        f"--controllers={','.join(_CONTROLLERS)}",
        # Emptying a namespace takes some sixty calls: at the default rate, several seconds per namespace.
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    ]


def write_kubeconfig(path: Path, cluster: dict[str, str], token: str, namespace: str) -> None:
    """Writes a kubeconfig with one context; `cluster` as in kubeconfigs (`server`, `certificate-authority-data`)."""
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
