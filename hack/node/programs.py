"""The programs that a node is made of, built from released Go modules once a machine."""

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
    """One binary: etcd, the control plane, kubelet, kube-proxy, a small DNS, and pretended GPUs."""
    return built_from(HERE / "parts", "node")


def runtime() -> Path:
    """The folder with containerd, its shim, its client, and the network plugins."""
    return built_folder(HERE / "runtime", "node-runtime", _RUNTIME, tags=_LEFT_OUT)


def metrics_server() -> Path:
    """What `kubectl top` and autoscalers ask. Of its own Kubernetes version: it would move the others in one module."""
    return installed_from(_METRICS_PACKAGE, _METRICS_VERSION, "metrics-server")


def pause() -> Path:
    """The folder with what the sandbox of every Pod runs: a static binary, since it is all that its image has."""
    return built_folder(HERE / "pause", "node-pause", (".",))
