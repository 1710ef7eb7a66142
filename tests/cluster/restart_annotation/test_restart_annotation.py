"""`gpurelay.dev/restarted-at`: a restart each time it changes, and never another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.cloud_log import BY_ITSELF, count
from tests.support.manifests import gpu_cluster, gpu_pod, ready

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import StartOperator
    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace

RESTARTED_AT = "gpurelay.dev/restarted-at"
KINDS = pytest.mark.parametrize(
    ("kind", "manifest"), [("GpuPod", gpu_pod("one")), ("GpuCluster", gpu_cluster("one"))], ids=["pod", "cluster"]
)


def _restarted(value: str) -> Callable[[Manifest | None], bool]:
    def restarted(item: Manifest | None) -> bool:
        return ready(item) and (item or {})["status"].get("restartedAt") == value

    return restarted


@KINDS
async def test_each_change_of_the_annotation_restarts_once(
    brisk_workspace: Workspace, kind: str, manifest: Manifest
) -> None:
    _, _, _, restart, _ = BY_ITSELF[kind]
    await brisk_workspace.apply(manifest)
    before = await brisk_workspace.becomes(kind, "one")
    for times, value in enumerate(["2026-11-21T10:00:00Z", "2026-11-21T11:00:00Z"], start=1):
        await brisk_workspace.kube.annotate(kind, "one", {RESTARTED_AT: value})
        after = await brisk_workspace.becomes(kind, "one", _restarted(value))
        assert await count(brisk_workspace, restart) == times
    assert after["status"]["id"] == before["status"]["id"]


async def test_an_object_made_with_the_annotation_is_not_restarted(brisk_workspace: Workspace) -> None:
    manifest = gpu_pod("one")
    manifest["metadata"]["annotations"] = {RESTARTED_AT: "2026-11-21T10:00:00Z"}
    await brisk_workspace.apply(manifest)
    await brisk_workspace.becomes("GpuPod", "one", _restarted("2026-11-21T10:00:00Z"))
    assert await count(brisk_workspace, BY_ITSELF["GpuPod"][3]) == 0


async def test_an_operator_that_starts_anew_does_not_restart_again(
    unattended_workspace: Workspace, start_operator: StartOperator
) -> None:
    workspace = unattended_workspace
    operator = await start_operator(workspace)
    _, _, _, restart, _ = BY_ITSELF["GpuPod"]
    await workspace.apply(gpu_pod("one"))
    await workspace.becomes("GpuPod", "one")
    await workspace.kube.annotate("GpuPod", "one", {RESTARTED_AT: "2026-11-21T10:00:00Z"})
    await workspace.becomes("GpuPod", "one", _restarted("2026-11-21T10:00:00Z"))
    await operator.stop()
    await operator.start()
    await workspace.kube.annotate("GpuPod", "one", {"gpurelay.dev/reconcile-at": "after the start"})
    await workspace.becomes("GpuPod", "one", lambda pod: (pod or {})["status"].get("reconcileAt") == "after the start")
    await workspace.becomes("GpuPod", "one", _restarted("2026-11-21T10:00:00Z"))
    assert await count(workspace, restart) == 1
