"""Starts what the demo needs: control plane, CRDs, local cloud and operator; reads the examples."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from tests.support import binaries, chart
from tests.support.controlplane import Cluster, ControlPlane
from tests.support.kube import Kube, Manifest
from tests.support.localcloud import LocalCloud, Organization, Ports
from tests.support.manifests import api_key_secret
from tests.support.operator import Operator
from tests.support.toolchain import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping

FOLDER = REPOSITORY / ".demo"
EXAMPLES = REPOSITORY / "examples"
NAMESPACE, OPERATOR_NAMESPACE = "default", "relay-system"
_WELL_KNOWN = Ports(8400, 8401, 8402, 8403)
_SETTINGS = {
    # One replica needs no Lease; with one, a killed operator would wait for its Lease to expire.
    "leader_election": "false",
    # The batch takes seconds, not hours, so status must follow its progress closely.
    "poll_transition_seconds": "1",
    "batch_progress_seconds": "1",
    # The account whose catalog becomes GpuModels is the one of the examples.
    "catalog_account": "",
}


class DemoError(Exception):
    """The demo cannot start; the text says why and what to do."""


@dataclass(frozen=True)
class Stage:
    """The running parts of the demo and how to reach them."""

    cluster: Cluster
    kube: Kube
    cloud: LocalCloud
    organization: Organization
    operator: Operator
    kubectl: Path


@contextlib.asynccontextmanager
async def set_up(
    announce: Callable[[str, str, float], None], chosen: Mapping[str, str] | None = None
) -> AsyncIterator[Stage]:
    """Starts the parts in order and stops them all on exit; `announce` gets each part's name, description and seconds.

    `chosen` adds to the operator's settings, or overrides them. Raises DemoError if another demo is running.
    """
    async with contextlib.AsyncExitStack() as ending:
        ending.enter_context(_folder_of_its_own())
        clock = _Stopwatch()
        cluster = await _cluster(ending)
        announce("control plane", _described(cluster), clock.lap())
        kube = await ending.enter_async_context(Kube(cluster.kubeconfig, NAMESPACE))
        await chart.install_crds(kube)
        kubeconfig = await chart.grant_access(cluster, OPERATOR_NAMESPACE)
        announce("CRDs, rights", "what the Helm chart installs: the kinds, a ServiceAccount, its roles", clock.lap())
        cloud = LocalCloud(FOLDER / "localcloud", _ports())
        ending.push_async_callback(cloud.process.stop, 5.0)
        await cloud.start()
        announce("local cloud", f"{cloud.management_url}, the GPU cloud's API on this machine", clock.lap())
        management, inference = cloud.ports.urls()
        urls = {"default_base_url": management, "default_inference_url": inference}
        settings = {**_SETTINGS, **urls, **(chosen or {})}
        operator = Operator(FOLDER / "operator", kubeconfig, OPERATOR_NAMESPACE, (), settings)
        ending.push_async_callback(operator.stop, 10.0)
        await operator.start()
        announce("operator", "relay-operator run, as that ServiceAccount", clock.lap())
        yield Stage(cluster, kube, cloud, cloud.seeded_organization(), operator, _kubectl())


def examples(organization: Organization) -> list[Manifest]:
    """Returns the Secret with the organization's API key, then the manifests directly in examples/."""
    texts = [path.read_text() for path in sorted(EXAMPLES.glob("*.yaml"))]
    manifests = [manifest for text in texts for manifest in yaml.safe_load_all(text) if manifest]
    return [api_key_secret(organization.api_key), *manifests]


async def _cluster(ending: contextlib.AsyncExitStack) -> Cluster:
    given = os.environ.get("RELAY_TEST_KUBECONFIG")
    if given:
        return Cluster(Path(given), FOLDER)
    plane = await ControlPlane.start(FOLDER / "controlplane", binaries.server_binaries())
    ending.push_async_callback(plane.stop)
    return plane


def _described(cluster: Cluster) -> str:
    if isinstance(cluster, ControlPlane):
        return f"{cluster.url}, a real etcd, kube-apiserver and kube-controller-manager"
    return f"the cluster of {cluster.kubeconfig}"


def _kubectl() -> Path:
    """Returns a short path to type: `kubectl` if it is on PATH, else a link in the demo's folder."""
    if shutil.which("kubectl"):
        return Path("kubectl")
    link = FOLDER / "kubectl"
    link.symlink_to(binaries.kubectl())
    return link


def _ports() -> Ports:
    """Returns the ports that the docs name, or four free ones if any of those is taken."""
    wanted = (_WELL_KNOWN.management, _WELL_KNOWN.inference, _WELL_KNOWN.gateway, _WELL_KNOWN.ssh)
    return _WELL_KNOWN if all(map(_is_free, wanted)) else Ports.free()


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@contextlib.contextmanager
def _folder_of_its_own() -> Iterator[None]:
    """Locks and empties the demo's folder. Raises DemoError if another demo holds the lock."""
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DemoError(f"another demo is running in {FOLDER}: end it with Ctrl-C first") from None
        for entry in FOLDER.iterdir():
            if entry.name != "lock":
                shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        yield


class _Stopwatch:
    def __init__(self) -> None:
        self._since = time.monotonic()

    def lap(self) -> float:
        """Returns the seconds since the previous lap, or since construction."""
        now = time.monotonic()
        lap, self._since = now - self._since, now
        return lap
