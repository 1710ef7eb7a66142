"""An account tells who spent what this month, of objects that are gone too, and keeps who that was."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.conftest import OPERATOR_NAMESPACE
from tests.support.eventually import eventually
from tests.support.manifests import gpu_pod

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.kube import Manifest
    from tests.support.operator import Operator
    from tests.support.workspace import Workspace

HOUR = 3600
ACCOUNT = "default"


def _figures(account: Mapping[str, Manifest] | None, by: str) -> dict[str, int]:
    spend = (account or {}).get("status", {}).get("spend", {})
    return {one["name"]: one["cents"] for one in spend.get(by, [])}


def _labelled(pod: Manifest) -> Manifest:
    pod["metadata"]["labels"] = {"gpurelay.dev/cost-center": "research"}
    return pod


async def test_what_an_object_spent_is_told_by_namespace_and_cost_centre_also_when_it_is_gone(
    brisk_private_workspace: Workspace, brisk: Operator
) -> None:
    workspace = brisk_private_workspace
    await workspace.cloud.control.clock(set="2030-06-15T12:00:00Z")  # far from the end of a month
    await workspace.apply(_labelled(gpu_pod()))
    price = (await workspace.becomes("GpuPod", "trainer"))["status"]["pricePerHourCents"]
    await workspace.cloud.control.advance(HOUR)
    kept = await eventually(workspace.kube.looking_at("ConfigMap", f"relay-spend-{ACCOUNT}"), what="who had what")
    assert kept is not None
    assert kept["metadata"]["ownerReferences"][0]["kind"] == "CloudAccount"
    account = await workspace.becomes(
        "CloudAccount", ACCOUNT, lambda item: _figures(item, "byNamespace").get(workspace.namespace)
    )
    assert _figures(account, "byCostCenter").keys() == {"research"}
    told = json.loads((await workspace.kubectl.relay("cost", "--spend", "-o", "json")).stdout)["items"]
    assert [(row["by"], row["name"]) for row in told] == [
        ("namespace", workspace.namespace),
        ("costCenter", "research"),
    ]
    await workspace.kube.delete("GpuPod", "trainer")
    await workspace.is_gone("GpuPod", "trainer")
    await brisk.kill()
    await brisk.start()

    labels = {"account_namespace": workspace.namespace, "account": ACCOUNT, "namespace": workspace.namespace}

    async def spent() -> float:
        return await brisk.metric("gpurelay_spend_cents", **labels, cost_center="research")

    assert await eventually(spent, lambda cents: cents >= price, what="what the pod that is gone has cost") < 2 * price


async def test_a_shared_account_keeps_who_had_what_where_no_tenant_writes(
    brisk_workspace: Workspace, shared_account: str
) -> None:
    kube = brisk_workspace.kube
    await kube.patch("Namespace", brisk_workspace.namespace, {"metadata": {"labels": {"team": "ml"}}})
    reference = {"kind": "ClusterCloudAccount", "name": shared_account}
    await brisk_workspace.apply(_labelled(gpu_pod(accountRef=reference)))
    await brisk_workspace.becomes("GpuPod", "trainer")
    name = f"relay-cluster-spend-{shared_account}"
    kept = await eventually(kube.looking_at("ConfigMap", name, OPERATOR_NAMESPACE), what="who had what")
    assert kept is not None
    assert kept["metadata"]["ownerReferences"][0]["kind"] == "ClusterCloudAccount"
    assert await kube.find("ConfigMap", name) is None
