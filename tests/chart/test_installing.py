"""The chart on a real API server: everything is taken, and the rights are enough and no more."""

from __future__ import annotations

import asyncio
import os
import subprocess
from typing import TYPE_CHECKING

from relay_operator.crds import DEFINITIONS
from tests.support.binaries import helm
from tests.support.chart import CHART, RELEASE, rendered
from tests.support.kube import Kube
from tests.support.kubectl import Kubectl

if TYPE_CHECKING:
    from tests.support.controlplane import ControlPlane

NAMESPACE = "relay-system"
EVERYTHING_BUILT_IN = (
    "networkPolicy.enabled=true",
    "webhook.ingress.enabled=true",
    "webhook.ingress.host=relay.example.com",
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


async def run_helm(plane: ControlPlane, *arguments: str) -> str:
    """Runs helm in the operator's namespace; raises AssertionError with what it said where it failed."""
    command = [str(helm()), *arguments, "--namespace", NAMESPACE]
    env = os.environ | {"KUBECONFIG": str(plane.kubeconfig)}
    done = await asyncio.to_thread(
        subprocess.run, command, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def sets(*values: str) -> list[str]:
    return [part for value in values for part in ("--set", value)]


async def test_it_installs_upgrades_and_leaves_the_crds_behind(private_controlplane: ControlPlane) -> None:
    values = sets(*EVERYTHING_BUILT_IN)
    await run_helm(private_controlplane, "install", RELEASE, str(CHART), "--create-namespace", *values)
    shown = await run_helm(private_controlplane, "upgrade", RELEASE, str(CHART), *values, "--set", "replicas=3")
    assert "REVISION: 2" in shown
    kubectl = Kubectl(private_controlplane.kubeconfig)
    await kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", "--all")
    assert "gpupods" in await kubectl("api-resources", "--categories=gpurelay", "--output=name")
    await run_helm(private_controlplane, "uninstall", RELEASE)
    assert (await kubectl("get", "crds", "--output=name")).count("gpurelay.dev") == len(DEFINITIONS)
    assert not await kubectl("get", "clusterroles", "--selector=helm.sh/chart", "--output=name")


async def test_its_pods_are_admitted_where_the_restricted_standard_is_enforced(
    private_controlplane: ControlPlane,
) -> None:
    async with Kube(private_controlplane.kubeconfig, NAMESPACE) as kube:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": RESTRICTED}}
        await kube.create(namespace)
        manifests = {one["kind"]: one for one in await rendered(NAMESPACE)}
        await kube.create(manifests["ServiceAccount"])
        template = manifests["Deployment"]["spec"]["template"]
        pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {"name": "a", **template["metadata"]}}
        await kube.create(pod)


async def test_the_service_account_may_do_what_it_needs_and_nothing_else(private_controlplane: ControlPlane) -> None:
    await run_helm(private_controlplane, "install", RELEASE, str(CHART), "--create-namespace")
    await Kubectl(private_controlplane.kubeconfig)("create", "namespace", "team")
    answers = await allowed(private_controlplane, [*MAY, *MAY_NOT])
    assert [right for right, yes in answers.items() if yes] == MAY


async def test_rights_in_one_namespace_end_there(private_controlplane: ControlPlane) -> None:
    kubectl = Kubectl(private_controlplane.kubeconfig)
    for name in ("team", "lab"):
        await kubectl("create", "namespace", name)
    values = sets("watchNamespaces[0]=team")
    await run_helm(private_controlplane, "install", RELEASE, str(CHART), "--create-namespace", *values)
    rights = [
        ("get", "secrets", "team"),
        ("create", "secrets", "team"),
        ("get", "configmaps", "team"),
        ("delete", "gpupods.gpurelay.dev", "team"),
    ]
    elsewhere = [(verb, resource, "lab") for verb, resource, _ in rights]
    answers = await allowed(private_controlplane, [*rights, *elsewhere])
    assert [right for right, yes in answers.items() if yes] == rights
    follows = [("list", "gpupods.gpurelay.dev", "lab"), ("patch", "gpupods.gpurelay.dev", "lab")]
    assert await allowed(private_controlplane, follows) == dict.fromkeys(follows, True)


async def test_an_upgrade_passes_while_a_watched_namespace_is_ending(private_controlplane: ControlPlane) -> None:
    kubectl = Kubectl(private_controlplane.kubeconfig)
    await kubectl("create", "namespace", "team")
    values = sets("watchNamespaces[0]=team")
    await run_helm(private_controlplane, "install", RELEASE, str(CHART), "--create-namespace", *values)
    await kubectl("create", "configmap", "held", "--namespace", "team")
    await kubectl("patch", "configmap", "held", "--namespace", "team", "--patch", HELD)
    await kubectl("delete", "namespace", "team", "--wait=false")
    await kubectl("wait", "--for=delete", "--timeout=30s", "--namespace", "team", f"role/{NAMESPACE}-{RELEASE}")
    shown = await run_helm(private_controlplane, "upgrade", RELEASE, str(CHART), *values, "--set", "replicas=3")
    assert "REVISION: 2" in shown


Right = tuple[str, str, str]


async def allowed(plane: ControlPlane, rights: list[Right]) -> dict[Right, bool]:
    """What the API server says of each right of the chart's ServiceAccount."""
    async with Kube(plane.kubeconfig) as kube:
        return {right: await _allowed(kube, right) for right in rights}


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
