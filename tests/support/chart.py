"""Renders the charts with helm; installs the CRDs, the ServiceAccount and its rights in a cluster."""

from __future__ import annotations

import asyncio
import subprocess
from functools import cache, partial
from typing import TYPE_CHECKING

import yaml

from tests.support.binaries import helm
from tests.support.eventually import PATIENCE_SECONDS, eventually
from tests.support.kube import Kube, KubeError, Manifest
from tests.support.toolchain import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.support.controlplane import Cluster

CHART = REPOSITORY / "charts" / "relay-operator"
LOCALCLOUD = REPOSITORY / "charts" / "relay-localcloud"
RELEASE = "relay-operator"
FOREIGN_KINDS = (
    "gateway.networking.k8s.io/v1/HTTPRoute",
    "monitoring.coreos.com/v1/ServiceMonitor",
    "monitoring.coreos.com/v1/PrometheusRule",
)
"""Kinds of other projects that the chart renders on demand, if the cluster has them."""
_POLICIES = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
_ACCESS = ("ServiceAccount", "ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding", *_POLICIES)


def sets(*values: str) -> list[str]:
    """Returns `--set` before each of the values."""
    return [part for value in values for part in ("--set", value)]


def template(chart: Path, *arguments: str) -> list[str]:
    """Returns the command that renders a chart, as a release with the chart's name."""
    return [str(helm()), "template", chart.name, str(chart), *arguments]


def refusal(arguments: Sequence[str], chart: Path = CHART) -> str:
    """Returns helm's error output; raises AssertionError if the chart renders."""
    tried = subprocess.run(
        template(chart, *arguments), capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    if not tried.returncode:
        raise AssertionError("helm rendered it")
    return tried.stderr


async def rendered(namespace: str, *values: str, chart: Path = CHART, crds: bool = False) -> list[Manifest]:
    """Renders the chart with `--set` for each of the values; raises AssertionError if helm fails.

    Helm assumes that the cluster has FOREIGN_KINDS. The operator's chart comes without its CRDs, which take half a
    second to parse, unless they are asked for.
    """
    foreign = [part for kind in FOREIGN_KINDS for part in ("--api-versions", kind)]
    without_crds = ("crds.install=false",) if chart == CHART and not crds else ()
    command = template(chart, "--namespace", namespace, *foreign, *sets(*without_crds, *values))
    return objects_in(await asyncio.to_thread(_output, tuple(command)))


@cache  # charts do not change during a run
def _output(command: tuple[str, ...]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    if done.returncode:
        raise AssertionError(f"`{' '.join(command)}` failed:\n{done.stderr}")
    return done.stdout


def objects_in(text: str) -> list[Manifest]:
    """Returns the objects of a YAML stream."""
    return [manifest for manifest in yaml.load_all(text, yaml.CSafeLoader) if manifest]


@cache
def definitions() -> tuple[Manifest, ...]:
    """Returns the CRDs of crds/, by file name; they are shared, so callers do not change them."""
    files = sorted((REPOSITORY / "crds").glob("*.yaml"))
    return tuple(definition for path in files for definition in objects_in(path.read_text()))


async def install_crds(kube: Kube) -> None:
    """Applies crds/ and returns once the API server serves each kind."""
    for definition in definitions():
        await kube.apply(definition)
    for definition in definitions():
        spec = definition["spec"]
        path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
        # `Established` is not enough: the first answers are 404 and 429 "storage is (re)initializing".
        await eventually(partial(_is_served, kube, path), what=f"{path} is served")


async def grant_access(cluster: Cluster, namespace: str, *values: str, chart: Path = CHART) -> Path:
    """Creates the namespace and the chart's ServiceAccount with its rights; returns a kubeconfig that acts as it."""
    manifests = [one for one in await rendered(namespace, *values, chart=chart) if one["kind"] in _ACCESS]
    accounts = [one["metadata"]["name"] for one in manifests if one["kind"] == "ServiceAccount"]
    if len(accounts) != 1:
        raise AssertionError(f"the chart should render one ServiceAccount, not {accounts}")
    async with Kube(cluster.kubeconfig, namespace) as kube:
        await kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        for manifest in sorted(manifests, key=lambda one: _ACCESS.index(one["kind"])):
            await kube.apply(manifest)
    return await cluster.service_account_kubeconfig(namespace, accounts[0])


async def _is_served(kube: Kube, path: str) -> bool:
    try:
        await kube.call("GET", path, params={"limit": "1"})
    except KubeError:
        return False
    return True
