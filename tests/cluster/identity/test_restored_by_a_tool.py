"""Objects that a backup tool brings back, with and without status and annotations, into the same or another cluster."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cluster.cloud_log import CREATE_CLUSTER, changes, count
from tests.support.manifests import condition, gpu_cluster, ready, stalled

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace

INTENT, ADOPT_ID, PAUSED = (f"gpurelay.dev/{name}" for name in ("create-intent", "adopt-id", "paused"))
KIND, NAME = "GpuCluster", "llm"


def _of_another_cluster(item: Manifest) -> Manifest:
    """The backup as it would be if another cluster's operator had written it."""
    elsewhere = {"installation": "other"}
    intent = json.loads(item["metadata"]["annotations"][INTENT])
    intent["identity"] |= elsewhere
    metadata = item["metadata"] | {"annotations": {INTENT: json.dumps(intent)}}
    return item | {
        "metadata": metadata,
        "status": item["status"] | {"identity": item["status"]["identity"] | elsewhere},
    }


async def _lost(workspace: Workspace) -> Manifest:
    """The backup of an object that is gone, and whose resource is not: what losing a cluster does."""
    await workspace.apply(gpu_cluster(NAME, replicas=1))
    backup = await workspace.becomes(KIND, NAME)
    await workspace.kube.annotate(KIND, NAME, {"gpurelay.dev/abandon": "true"})
    await workspace.kube.delete(KIND, NAME)
    await workspace.is_gone(KIND, NAME)
    return backup


async def _restore(workspace: Workspace, backup: Manifest, *, status: bool, annotations: bool, **more: str) -> None:
    """As tools do it: the object first, then its status, with nothing reconciled in between."""
    kept = dict(backup["metadata"]["annotations"]) if annotations else {}
    manifest = gpu_cluster(NAME, replicas=1)
    manifest["metadata"]["annotations"] = kept | more | {PAUSED: "true"}
    await workspace.kube.create(manifest)
    if status:
        await workspace.kube.patch(KIND, NAME, {"status": backup["status"]}, subresource="status")
    await workspace.kube.annotate(KIND, NAME, {PAUSED: None})


def _own(item: Manifest | None) -> bool:
    metadata, status = (item or {})["metadata"], (item or {})["status"]
    return ready(item) and status.get("identity", {}).get("uid") == metadata["uid"]


@pytest.mark.parametrize("annotations", [True, False], ids=["annotations", "no annotations"])
@pytest.mark.parametrize("status", [True, False], ids=["status", "no status"])
@pytest.mark.parametrize("same", [True, False], ids=["the same cluster", "another"])
async def test_what_a_backup_brings_back(
    brisk_workspace: Workspace, same: bool, status: bool, annotations: bool
) -> None:
    """In its own cluster it goes on, by what is left of it; in another it is a copy. The former one is never ended."""
    workspace = brisk_workspace
    backup = await _lost(workspace)
    former = backup["status"]["id"]
    brought = backup if same else _of_another_cluster(backup)
    await _restore(workspace, brought, status=status, annotations=annotations)
    after = await workspace.becomes(KIND, NAME, _own)
    goes_on = same and (status or annotations)
    assert (after["status"]["id"] == former) is goes_on
    assert await count(workspace, CREATE_CLUSTER) == (1 if goes_on else 2)
    assert (await workspace.organization.cluster(former))["status"] == "running"
    assert set(await changes(workspace)) == {CREATE_CLUSTER}


async def test_what_another_cluster_had_is_taken_over_by_a_persons_word(brisk_workspace: Workspace) -> None:
    workspace = brisk_workspace
    backup = await _lost(workspace)
    former = backup["status"]["id"]
    await _restore(workspace, _of_another_cluster(backup), status=True, annotations=True, **{ADOPT_ID: former})
    after = await workspace.becomes(KIND, NAME, _own)
    assert (after["status"]["id"], await changes(workspace)) == (former, [CREATE_CLUSTER])
    assert not stalled(after)
    assert not condition(after, "CreateOutcomeUnknown")
