"""A whole Kubernetes node without Docker and without an image registry.

It needs Linux and root. Apart from cgroups and a folder, which `stop` removes, it leaves the machine as it is.
"""

from __future__ import annotations

import base64
import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hack.node import programs
from hack.node.archive import write_image
from hack.node.debian import node_root
from tests.support.certificates import Authority, write_signing_key
from tests.support.controlplane import Cluster, Ready
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.process import Process, StartError, free_port, tail
from tests.support.servers import write_kubeconfig, write_private

if TYPE_CHECKING:
    from collections.abc import Sequence

_HERE: Final = Path(__file__).parent
ADDRESS: Final = "10.200.0.1"
"""The node's address; the same for every node, since each has its own network namespace."""
_SERVICE_ADDRESS: Final = "10.96.0.1"
_PARTS: Final = {
    "admin": ("admin", "system:masters"),
    "kubelet": ("system:node:{name}", "system:nodes"),
    "controller-manager": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
    "proxy": ("system:kube-proxy", ""),
}
"""User and group of each component; the API server authorizes them as in any cluster."""
_CGROUPS: Final = Path("/sys/fs/cgroup")
_PAUSE: Final = "localhost/pause:1"


@dataclass(frozen=True)
class Node(Cluster):
    """A cluster of one node. When its PID 1 ends, everything in it ends."""

    name: str
    init: Process
    forwarding: Process

    @classmethod
    async def start(cls, name: str, images: Sequence[Path], *, gpus: int = 8, outlives_parent: bool = False) -> Node:
        """Starts a node with these images (docker-archives) imported. Raises StartError, BuildError.

        It pretends to have so many GPUs, and has two volumes for each.
        """
        why = unfit()
        if why:
            raise StartError(why)
        folder = Path(tempfile.mkdtemp(prefix=f"relay-node-{name}-"))
        for each in ("upper", "work", "root", "containerd", "kubelet", "pki", "log", "images"):
            (folder / each).mkdir()
        shutil.copytree(_HERE / "config", folder / "config")
        port = free_port()
        token = _write_identities(folder / "pki", name)
        _provide(folder / "images", images)
        init = Process(name, _command(name, gpus, folder), folder / "log" / "init.log", outlives_parent=outlives_parent)
        forwarding = Process("forward", [], folder / "log" / "forward.log", outlives_parent=outlives_parent)
        node = cls(kubeconfig=folder / "kubeconfig", folder=folder, name=name, init=init, forwarding=forwarding)
        try:
            _make_cgroups(name)
            init.spawn()
            node._wait_for(folder / "pki" / "ready")
            forwarding.argv = _forward((os.getpid(), "127.0.0.1", port), (node.pid, ADDRESS, 6443))
            forwarding.ready = Ready(f"https://127.0.0.1:{port}/readyz", token)
            await forwarding.start()
        except BaseException:
            await node.stop(keep_logs=True)
            raise
        authority = base64.b64encode((folder / "pki" / "ca.crt").read_bytes()).decode()
        cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": authority}
        write_kubeconfig(node.kubeconfig, cluster, token, "default")
        return node

    @property
    def pid(self) -> int:
        """The machine's process id for the node's PID 1; `nsenter -t PID -a` enters the node."""
        said = subprocess.run(
            ["pgrep", "-P", str(self.init.pid)], capture_output=True, text=True, timeout=10, check=True
        )
        return int(said.stdout.split()[0])

    def way_out(self, port: int) -> Process:
        """A process that forwards this port of the node's address to that of this machine's loopback.

        Nothing else leads out of the node.
        """
        argv = _forward((self.pid, ADDRESS, port), (os.getpid(), "127.0.0.1", port))
        return Process("way-out", argv, self.folder / "log" / f"way-out-{port}.log")

    async def stop(self, *, keep_logs: bool = False) -> None:
        """Ends the node and removes everything it left on the machine, except logs with `keep_logs`."""
        await self.forwarding.kill()
        if self.init.running:
            with contextlib.suppress(subprocess.CalledProcessError, ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        await self.init.kill()
        remove(self.name, self.folder, keep_logs=keep_logs)

    def _wait_for(self, path: Path) -> None:
        until = time.monotonic() + PATIENCE_SECONDS
        while not path.exists():
            if not self.init.running or time.monotonic() > until:
                raise StartError(
                    f"the node {self.name} did not become ready, see {self.folder / 'log'}:\n{tail(self.init.log)}"
                )
            time.sleep(0.05)


def _forward(near: tuple[int, str, int], far: tuple[int, str, int]) -> list[str]:
    return [sys.executable, str(_HERE / "forward.py"), *map(str, (*near, *far))]


def unfit() -> str:
    """Returns why this machine cannot start a node; empty if it can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "a node needs Linux and root: it makes namespaces, overlays and cgroups"
    if not (_CGROUPS / "memory" / "cgroup.procs").exists():
        return "a node needs cgroup v1, which this machine lacks: use `make kind` and `make test-kind`"
    return ""


def remove(name: str, folder: Path, *, keep_logs: bool = False) -> None:
    """Removes the cgroups and the folder of a node that has ended, if they are still there."""
    for cgroup in _CGROUPS.glob(f"*/{_cgroup(name)}"):
        for _ in range(100):
            for inner in sorted(cgroup.rglob("*/"), reverse=True):
                with contextlib.suppress(OSError):
                    inner.rmdir()
            with contextlib.suppress(OSError):
                cgroup.rmdir()
            if not cgroup.exists():
                break
            time.sleep(0.05)
    if not folder.exists():
        return
    for path in folder.iterdir():
        if not (keep_logs and path.name == "log"):
            subprocess.run(["rm", "-rf", "--one-file-system", str(path)], timeout=120, check=True)
    if not keep_logs:
        folder.rmdir()


def _command(name: str, gpus: int, folder: Path) -> list[str]:
    own = [
        "--mount",
        "--propagation",
        "private",
        "--pid",
        "--fork",
        "--kill-child",
        "--net",
        "--ipc",
        "--uts",
        "--cgroup",
    ]
    joined = 'for procs in /sys/fs/cgroup/*/"$1"/cgroup.procs; do echo $$ > "$procs"; done; shift; exec unshare "$@"'
    laid = [node_root(), programs.kubernetes().parent, programs.runtime(), programs.metrics_server().parent]
    inside = ["bash", str(_HERE / "inside.sh"), name, *map(str, (gpus, *laid, folder / "images", folder))]
    return ["bash", "-c", joined, "bash", _cgroup(name), *own, *inside]


def _provide(folder: Path, images: Sequence[Path]) -> None:
    write_image(programs.pause(), folder / "pause.tar", _PAUSE, {"Entrypoint": ["/pause"]})
    for image in images:
        try:
            os.link(image, folder / image.name)
        except OSError:  # the folder is on another file system
            shutil.copy(image, folder / image.name)


def _write_identities(folder: Path, name: str) -> str:
    """Writes tokens, kubeconfigs, keys and the API server's two certificates; returns the administrator's token.

    One certificate serves the API, the other identifies the API server to the kubelet.
    """
    names = (
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    )
    authority = Authority.create(f"node-{name}")
    authority.write(folder)
    authority.serve(folder / "apiserver", names, ("127.0.0.1", ADDRESS, _SERVICE_ADDRESS))
    authority.identify(folder / "kubelet-client", "kube-apiserver", "system:masters")
    write_signing_key(folder)
    rows, tokens = [], {part: secrets.token_hex(16) for part in _PARTS}
    for part, (known_as, group) in _PARTS.items():
        user = known_as.format(name=name)
        rows.append(f'{tokens[part]},{user},{user},"{group}"' if group else f"{tokens[part]},{user},{user}")
        cluster = {"server": f"https://{ADDRESS}:6443", "certificate-authority": "/pki/ca.crt"}
        write_kubeconfig(folder / f"{part}.kubeconfig", cluster, tokens[part], "default")
    write_private(folder / "tokens.csv", "\n".join(rows) + "\n")
    return tokens["admin"]


def _cgroup(name: str) -> str:
    return f"relay-node-{name}"


def _make_cgroups(name: str) -> None:
    """Creates the node's cgroup in every cgroup v1 hierarchy; the node's cgroup namespace makes it the root."""
    for procs in _CGROUPS.glob("*/cgroup.procs"):
        hierarchy = procs.parent
        if hierarchy.is_symlink():
            continue
        own = hierarchy / _cgroup(name)
        own.mkdir(exist_ok=True)
        for setting in ("cpuset.cpus", "cpuset.mems"):
            if (own / setting).exists():
                (own / setting).write_text((hierarchy / setting).read_text())
        with contextlib.suppress(OSError):
            if (own / "memory.use_hierarchy").exists():
                (own / "memory.use_hierarchy").write_text("1")
