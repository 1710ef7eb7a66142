"""The programs of a node, built from released Go modules once per machine. Every function raises BuildError."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.support.toolchain import built_folder, built_from, installed_from

HERE: Final = Path(__file__).parent
_CONTAINERD, _CNI = "github.com/containerd/containerd/v2/cmd", "github.com/containernetworking/plugins/plugins"
_RUNTIME: Final = (
    *(f"{_CONTAINERD}/{name}" for name in ("containerd", "containerd-shim-runc-v2", "ctr")),
    *(f"{_CNI}/{name}" for name in ("ipam/host-local", "main/bridge", "main/loopback", "meta/portmap")),
)
_LEFT_OUT: Final = "no_btrfs,no_zfs,no_aufs,no_devmapper"
_METRICS_PACKAGE, _METRICS_VERSION = "sigs.k8s.io/metrics-server/cmd/metrics-server", "v0.9.0"


def kubernetes() -> Path:
    """Returns one binary with etcd, the control plane, kubelet, kube-proxy, a small DNS server and simulated GPUs."""
    return built_from(HERE / "parts", "node")


def runtime() -> Path:
    """Returns the folder with containerd, its shim, its client, and the CNI plugins."""
    return built_folder(HERE / "runtime", "node-runtime", _RUNTIME, tags=_LEFT_OUT)


def metrics_server() -> Path:
    """Returns metrics-server, which serves `kubectl top` and autoscalers.

    Built outside the node's Go module, where its Kubernetes dependencies would change the versions of the others.
    """
    return installed_from(_METRICS_PACKAGE, _METRICS_VERSION, "metrics-server")


def pause() -> Path:
    """Returns the folder with the program of every Pod's sandbox: a static binary, the only file of its image."""
    return built_folder(HERE / "pause", "node-pause", (".",))
