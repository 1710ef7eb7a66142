"""`kubectl relay top`, as people run it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.support.manifests import gpu_pod

if TYPE_CHECKING:
    from tests.support.controlplane import Cluster
    from tests.support.workspace import Workspace


async def test_kubectl_finds_it_on_path_and_it_tells_what_runs(workspace: Workspace) -> None:
    await workspace.apply(gpu_pod())
    pod = await workspace.becomes("GpuPod", "trainer")
    told = await workspace.kubectl.shell(f"kubectl relay top --namespace {workspace.namespace}")
    assert "GpuPod  trainer  default  running  1 l40s" in told
    (item,) = json.loads((await workspace.kubectl.relay("top", "--output=json")).stdout)["items"]
    status = pod["status"]
    assert (item["pricePerHourCents"], item["since"]) == (status["pricePerHourCents"], status["runningSince"])
    assert item["organization"] == workspace.organization.id

    everywhere = await workspace.kubectl.relay("top", "-A")
    assert (everywhere.exit_code, everywhere.stdout.startswith("NAMESPACE ")) == (0, True)
    nowhere = await workspace.kubectl.relay("top", "--context=nowhere")
    assert (nowhere.exit_code, nowhere.stderr) == (1, 'kubectl relay: context "nowhere" does not exist\n')


async def test_who_may_not_look_is_told_which_right_is_missing(workspace: Workspace, cluster: Cluster) -> None:
    namespace = workspace.namespace
    await workspace.kube.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "nobody"}})
    nobody = replace(workspace.kubectl, kubeconfig=await cluster.service_account_kubeconfig(namespace, "nobody"))
    refused = await nobody.relay("top")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr == (
        f'kubectl relay: User "system:serviceaccount:{namespace}:nobody" cannot list resource "gpupods" in API group '
        f'"gpurelay.dev" in the namespace "{namespace}": ask an administrator of the cluster for this right\n'
    )
