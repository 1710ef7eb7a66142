"""Objects as large as etcd takes them: nothing is made for one whose status might not fit, and nobody has to wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.batch_side import CREATE_BATCH, batch, put_prompts, record
from tests.cluster.cloud_log import CREATES, count
from tests.support.manifests import gpu_cluster, gpu_pod, ready, stalled

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace

MADE: dict[str, Manifest] = {
    "GpuPod": gpu_pod("one"),
    "GpuCluster": gpu_cluster("one"),
    "InferenceBatch": batch("one"),
}


def _labels(number: int) -> dict[str, str]:
    return {f"l{each:05}": "x" * 63 for each in range(number)}


@pytest.mark.parametrize("kind", MADE)
async def test_nothing_is_made_for_an_object_that_is_too_large_before_it_is_smaller(
    brisk_workspace: Workspace, kind: str
) -> None:
    await put_prompts(brisk_workspace, [record("r1")])
    manifest = {**MADE[kind], "metadata": {**MADE[kind]["metadata"], "labels": _labels(15_000)}}
    await brisk_workspace.kube.apply(manifest)
    told = await brisk_workspace.becomes(kind, "one", lambda item: stalled(item) == "ObjectTooLarge")
    assert not told["metadata"].get("finalizers")
    assert await count(brisk_workspace, *CREATES, CREATE_BATCH) == 0
    await brisk_workspace.kube.patch(kind, "one", {"metadata": {"labels": None}})
    await brisk_workspace.becomes(kind, "one", ready)
    assert await count(brisk_workspace, *CREATES, CREATE_BATCH) == 1
