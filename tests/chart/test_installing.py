"""The chart on a real API server: everything is taken, and the rights are enough and no more."""

from __future__ import annotations

import asyncio
import os
import subprocess
from functools import partial
from typing import TYPE_CHECKING

import pytest_asyncio

from relay_operator.crds import DEFINITIONS
from tests.support.binaries import helm
from tests.support.chart import CHART, RELEASE, rendered, sets
from tests.support.controlplane import ControlPlane
from tests.support.eventually import PATIENCE_SECONDS, eventually
from tests.support.kube import Kube
from tests.support.kubectl import Kubectl

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest

    from tests.support.binaries import ServerBinaries

NAMESPACE = "relay-system"
EVERYTHING_BUILT_IN = (
    "networkPolicy.egress=true",
    "webhook.publicUrl=https://relay.example.com",
    "webhook.ingress.enabled=true",
)
HELD = '{"metadata": {"finalizers": ["example.com/held"]}}'
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}

MAY = [
    ("get", "secrets", "team"),
    ("create", "secrets", "team"),
    ("patch", "secrets", "team"),
    ("get", "configmaps", "team"),
    ("watch", "gpupods.gpurelay.dev", "team"),
    ("patch", "gpupods.gpurelay.dev", "team"),
    ("patch", "gpupods.gpurelay.dev/status", "team"),
    ("delete", "gpupods.gpurelay.dev", "team"),
    ("create", "events.events.k8s.io", "team"),
    ("create", "leases.coordination.k8s.io", NAMESPACE),
    ("patch", f"leases.coordination.k8s.io/{RELEASE}", NAMESPACE),
    ("patch", "pods", NAMESPACE),
]
MAY_NOT = [
    ("list", "secrets", "team"),
    ("watch", "secrets", "team"),
    ("delete", "secrets", "team"),
    ("list", "configmaps", "team"),
    ("create", "gpupods.gpurelay.dev", "team"),
    ("delete", "cloudaccounts.gpurelay.dev", "team"),
    ("get", "pods", "team"),
    ("patch", "pods", "team"),
    ("get", "pods", NAMESPACE),
    ("patch", "leases.coordination.k8s.io/another", NAMESPACE),
    ("create", "leases.coordination.k8s.io", "team"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def bare_plane(
    server_binaries: ServerBinaries, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ControlPlane]:
    """A control plane of this module's own: in the shared one nobody else may install the CRDs."""
    plane = await ControlPlane.start(tmp_path_factory.mktemp("controlplane"), server_binaries)
    kubectl = Kubectl(plane.kubeconfig)
    for name in ("team", "lab", "ending"):
        await kubectl("create", "namespace", name)
    yield plane
    await plane.stop()


@pytest_asyncio.fixture
async def plane(bare_plane: ControlPlane) -> AsyncIterator[ControlPlane]:
    """The same, in which a release lasts no longer than its test; the CRDs stay, and the next release takes them."""
    yield bare_plane
    await run_helm(bare_plane, "uninstall", RELEASE, "--ignore-not-found")


async def run_helm(plane: ControlPlane, *arguments: str) -> str:
    """Runs helm in the operator's namespace; raises AssertionError with what it said where it failed."""
    command = [str(helm()), *arguments, "--namespace", NAMESPACE]
    env = os.environ | {"KUBECONFIG": str(plane.kubeconfig)}
    done = await asyncio.to_thread(
        subprocess.run, command, env=env, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_it_installs_upgrades_and_leaves_the_crds_behind(plane: ControlPlane) -> None:
    values = sets(*EVERYTHING_BUILT_IN)
    await run_helm(plane, "install", RELEASE, str(CHART), "--create-namespace", *values)
    shown = await run_helm(plane, "upgrade", RELEASE, str(CHART), *values, "--set", "replicas=3")
    assert "REVISION: 2" in shown
    kubectl = Kubectl(plane.kubeconfig)
    await kubectl("wait", "--for=condition=Established", f"--timeout={PATIENCE_SECONDS:g}s", "crd", "--all")
    listed = partial(kubectl, "api-resources", "--categories=gpurelay", "--output=name")
    await eventually(listed, lambda names: "gpupods" in names, what="the kinds are told of")
    await run_helm(plane, "uninstall", RELEASE)
    assert (await kubectl("get", "crds", "--output=name")).count("gpurelay.dev") == len(DEFINITIONS)
    assert not await kubectl("get", "clusterroles", "--selector=helm.sh/chart", "--output=name")


async def test_its_pods_are_admitted_where_the_restricted_standard_is_enforced(plane: ControlPlane) -> None:
    async with Kube(plane.kubeconfig, "restricted") as kube:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "restricted", "labels": RESTRICTED}}
        await kube.create(namespace)
        await eventually(kube.looking_at("ServiceAccount", "default"), what="Pods can be made")
        manifests = {one["kind"]: one for one in await rendered("restricted")}
        await kube.create(manifests["ServiceAccount"])
        template = manifests["Deployment"]["spec"]["template"]
        pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {"name": "a", **template["metadata"]}}
        await kube.create(pod)
        await kube.create(manifests["Pod"])


async def test_the_service_account_may_do_what_it_needs_and_nothing_else(plane: ControlPlane) -> None:
    await run_helm(plane, "install", RELEASE, str(CHART), "--create-namespace")
    await may_only(plane, MAY, MAY_NOT)


async def test_rights_in_one_namespace_end_there(plane: ControlPlane) -> None:
    values = sets("watchNamespaces[0]=team")
    await run_helm(plane, "install", RELEASE, str(CHART), "--create-namespace", *values)
    rights = [
        ("get", "secrets", "team"),
        ("create", "secrets", "team"),
        ("get", "configmaps", "team"),
        ("delete", "gpupods.gpurelay.dev", "team"),
    ]
    elsewhere = [(verb, resource, "lab") for verb, resource, _ in rights]
    follows = [("list", "gpupods.gpurelay.dev", "lab"), ("patch", "gpupods.gpurelay.dev", "lab")]
    await may_only(plane, [*rights, *follows], elsewhere)


async def test_an_upgrade_passes_while_a_watched_namespace_is_ending(plane: ControlPlane) -> None:
    kubectl = Kubectl(plane.kubeconfig)
    values = sets("watchNamespaces[0]=ending")
    await run_helm(plane, "install", RELEASE, str(CHART), "--create-namespace", *values)
    await kubectl("create", "configmap", "held", "--namespace", "ending")
    await kubectl("patch", "configmap", "held", "--namespace", "ending", "--patch", HELD)
    await kubectl("delete", "namespace", "ending", "--wait=false")
    await kubectl(
        "wait",
        "--for=delete",
        f"--timeout={PATIENCE_SECONDS:g}s",
        "--namespace",
        "ending",
        f"role/{NAMESPACE}-{RELEASE}",
    )
    shown = await run_helm(plane, "upgrade", RELEASE, str(CHART), *values, "--set", "replicas=3")
    assert "REVISION: 2" in shown


Right = tuple[str, str, str]


async def may_only(plane: ControlPlane, rights: list[Right], further: list[Right]) -> None:
    """The chart's ServiceAccount has these rights alone, once the API server sees what was made and what is gone."""
    async with Kube(plane.kubeconfig) as kube:

        async def allowed() -> list[Right]:
            return [right for right in (*rights, *further) if await _allowed(kube, right)]

        await eventually(allowed, lambda found: found == rights, what="its rights are in force")


async def _allowed(kube: Kube, right: Right) -> bool:
    verb, target, namespace = right
    resource, _, part = target.partition("/")
    plural, _, group = resource.partition(".")
    named = "subresource" if part == "status" else "name"
    attributes = {"verb": verb, "group": group, "resource": plural, "namespace": namespace, named: part}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": f"system:serviceaccount:{NAMESPACE}:{RELEASE}", "resourceAttributes": attributes},
    }
    answer = await kube.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return answer["status"]["allowed"] is True
