"""`kubectl relay cost`, as people run it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest_asyncio

from tests.support.manifests import gpu_pod

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.controlplane import Cluster
    from tests.support.kubectl import Kubectl
    from tests.support.workspace import Workspace

HOUR = 3600
_GROUP = "rbac.authorization.k8s.io"
_SEEN = ["gpupods", "gpuvms", "gpuclusters", "servingdeployments", "cloudaccounts"]


@pytest_asyncio.fixture
async def viewer(private_cloud_workspace: Workspace, cluster: Cluster) -> AsyncIterator[Kubectl]:
    """Somebody who may read workloads and their accounts in every namespace, and no Secret."""
    kube, namespace, name = private_cloud_workspace.kube, private_cloud_workspace.namespace, "viewer"
    who = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    role, rules = f"{namespace}-{name}", [{"apiGroups": ["gpurelay.dev"], "resources": _SEEN, "verbs": ["get", "list"]}]
    of_role = {"apiGroup": _GROUP, "kind": "ClusterRole", "name": role}
    await kube.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
    for kind, more in (
        ("ClusterRole", {"rules": rules}),
        ("ClusterRoleBinding", {"roleRef": of_role, "subjects": [who]}),
    ):
        await kube.create({"apiVersion": f"{_GROUP}/v1", "kind": kind, "metadata": {"name": role}, **more})
    kubeconfig = await cluster.service_account_kubeconfig(namespace, name)
    yield replace(private_cloud_workspace.kubectl, kubeconfig=kubeconfig)
    for kind in ("ClusterRoleBinding", "ClusterRole"):
        await kube.delete(kind, role)


async def test_it_tells_who_spends_what(private_cloud_workspace: Workspace, viewer: Kubectl) -> None:
    workspace = private_cloud_workspace
    await workspace.cloud.control.clock(set="2030-06-15T12:00:00Z")  # far from the end of a day and of a month
    pod = gpu_pod()
    pod["metadata"]["labels"] = {"gpurelay.dev/cost-center": "research"}
    await workspace.apply(pod)
    price = (await workspace.becomes("GpuPod", "trainer"))["status"]["pricePerHourCents"]
    await workspace.becomes("CloudAccount", "default")
    await workspace.cloud.control.advance(HOUR)

    (share,) = json.loads((await workspace.kubectl.relay("cost", "-o", "json")).stdout)["items"]
    assert (share["namespace"], share["costCenter"]) == (workspace.namespace, "research")
    assert (share["billed"], share["pricePerHourCents"]) == (1, price)
    assert share["monthToDateCents"] >= price

    (today,) = json.loads((await workspace.kubectl.relay("cost", "--days=1", "-o", "json")).stdout)["items"]
    assert (today["organization"], today["cents"] >= price) == (workspace.organization.id, True)

    for options in ((), ("-A",)):
        told = await viewer.relay("cost", "-o", "json", *options)
        shares = [share for share in json.loads(told.stdout)["items"] if share["namespace"] == workspace.namespace]
        assert [(share["pricePerHourCents"], share["monthToDateCents"]) for share in shares] == [(price, None)]
        assert 'cannot get resource "secrets"' in told.stderr
        assert ("ClusterCloudAccounts are left out: " in told.stderr) is bool(options)
        assert workspace.organization.api_key not in told.stdout + told.stderr
