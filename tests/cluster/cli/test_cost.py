"""`kubectl relay cost`, as people run it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.support.manifests import gpu_pod

if TYPE_CHECKING:
    from tests.support.controlplane import Cluster
    from tests.support.workspace import Workspace

HOUR = 3600


async def test_it_tells_who_spends_what(private_cloud_workspace: Workspace, cluster: Cluster) -> None:
    workspace = private_cloud_workspace
    await workspace.cloud.control.clock(set="2030-06-15T12:00:00Z")  # far from the end of a day and of a month
    pod = gpu_pod()
    pod["metadata"]["labels"] = {"gpurelay.dev/cost-center": "research"}
    await workspace.apply(pod)
    price = (await workspace.becomes("GpuPod", "trainer"))["status"]["pricePerHourCents"]
    await workspace.cloud.control.advance(HOUR)

    (share,) = json.loads((await workspace.kubectl.relay("cost", "-o", "json")).stdout)["items"]
    assert (share["namespace"], share["costCenter"]) == (workspace.namespace, "research")
    assert (share["billed"], share["pricePerHourCents"]) == (1, price)
    assert share["monthToDateCents"] >= price

    (today,) = json.loads((await workspace.kubectl.relay("cost", "--days=1", "-o", "json")).stdout)["items"]
    assert (today["organization"], today["cents"] >= price) == (workspace.organization.id, True)

    viewer = await cluster.service_account_kubeconfig(workspace.namespace, await _viewer(workspace))
    told = await replace(workspace.kubectl, kubeconfig=viewer).relay("cost", "-o", "json")
    (share,) = json.loads(told.stdout)["items"]
    assert (share["pricePerHourCents"], share["monthToDateCents"]) == (price, None)
    assert 'cannot get resource "secrets"' in told.stderr
    assert workspace.organization.api_key not in told.stdout + told.stderr


async def _viewer(workspace: Workspace) -> str:
    """A ServiceAccount that may read our objects in the namespace, and no Secret."""
    name, group = "viewer", "rbac.authorization.k8s.io"
    await workspace.kube.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
    objects = {"apiGroups": ["gpurelay.dev"], "resources": ["*"], "verbs": ["get", "list"]}
    role = {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": {"name": name}, "rules": [objects]}
    await workspace.kube.create(role)
    await workspace.kube.create(
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": workspace.namespace}],
        }
    )
    return name
