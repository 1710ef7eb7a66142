"""The annotation `plan-only`, on the real API server: nothing is sent, and each step is told before it is taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.cloud_log import changes
from tests.support.eventually import eventually
from tests.support.manifests import condition, gpu_cluster, gpu_pod, ready

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace

ONLY = "gpurelay.dev/plan-only"
GPU = {"modelId": "h100", "count": 2}


def _planned(item: Manifest | None) -> dict[str, Any]:
    return dict((item or {}).get("status", {}).get("plan") or {})


@pytest.mark.parametrize(
    ("kind", "manifest", "bigger"),
    [
        ("GpuPod", gpu_pod("one", gpu=GPU, updateStrategy={"type": "Recreate"}), {"gpu": {"count": 4}}),
        ("GpuCluster", gpu_cluster("one", gpu=GPU), {"replicas": 3}),
    ],
    ids=["pod", "cluster"],
)
async def test_each_step_of_a_life_is_told_before_it_is_taken(
    workspace: Workspace, kind: str, manifest: Manifest, bigger: dict[str, Any]
) -> None:
    async def plans(action: str) -> Manifest:
        item = await workspace.becomes(kind, "one", lambda item: _planned(item).get("action") == action)
        assert condition(item, "Ready")["reason"] == "PlanOnly"
        return item

    async def lets(value: str | None) -> None:
        await workspace.kube.annotate(kind, "one", {ONLY: value})

    manifest["metadata"]["annotations"] = {ONLY: "true"}
    await workspace.apply(manifest)
    created = await plans("Create")
    assert created["metadata"].get("finalizers", []) == []
    assert await changes(workspace) == []
    quote = _planned(created)["pricePerHourCents"]
    await lets(None)
    running = await workspace.becomes(kind, "one", ready)
    assert (_planned(running), len(await changes(workspace))) == ({}, 1)
    if kind == "GpuPod":
        assert running["status"]["pricePerHourCents"] == quote

    await lets("true")
    await workspace.kube.patch(kind, "one", {"spec": bigger})
    changed = await plans("Recreate" if kind == "GpuPod" else "Scale")
    assert _planned(changed)["pricePerHourCents"] > quote

    await workspace.kube.delete(kind, "one")
    deleting = await plans("Delete")
    assert _planned(deleting)["pricePerHourCents"] == 0
    assert _planned(deleting)["loses"] == [f"{running['status']['id']} is ended, and its volume with it"]
    assert len(await changes(workspace)) == 1
    await lets(None)
    await workspace.is_gone(kind, "one")


async def test_what_only_a_plan_was_made_of_goes_at_once(workspace: Workspace) -> None:
    manifest = gpu_pod("one", gpu=GPU)
    manifest["metadata"]["annotations"] = {ONLY: "true"}
    await workspace.apply(manifest)
    await eventually(workspace.kube.looking_at("GpuPod", "one"), _planned, what="a plan")
    await workspace.kube.delete("GpuPod", "one")
    await workspace.is_gone("GpuPod", "one")
    assert await changes(workspace) == []
