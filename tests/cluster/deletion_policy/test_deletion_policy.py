"""What `deletionPolicy` leaves in the cloud."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.cloud_log import BY_ITSELF, changes
from tests.cluster.cloud_side import state_of
from tests.support.manifests import gpu_cluster, gpu_pod, with_spec

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace

KINDS = pytest.mark.parametrize(
    ("kind", "manifest"), [("GpuPod", gpu_pod("one")), ("GpuCluster", gpu_cluster("one"))], ids=["pod", "cluster"]
)


async def _deleted(workspace: Workspace, kind: str) -> str:
    """Makes sure that it is as asked, deletes the object and waits; answers the cloud's id."""
    cloud_id: str = (await workspace.becomes(kind, "one"))["status"]["id"]
    await workspace.kube.delete(kind, "one")
    await workspace.is_gone(kind, "one")
    return cloud_id


@KINDS
async def test_orphan_leaves_it_as_it_is(workspace: Workspace, kind: str, manifest: Manifest) -> None:
    await workspace.apply(with_spec(manifest, deletionPolicy="Orphan"))
    cloud_id = await _deleted(workspace, kind)
    assert await state_of(workspace, kind, cloud_id) == "running"
    assert await changes(workspace) == [BY_ITSELF[kind][0]]


@KINDS
async def test_stop_ends_its_run_and_keeps_it(workspace: Workspace, kind: str, manifest: Manifest) -> None:
    await workspace.apply(with_spec(manifest, deletionPolicy="Stop"))
    cloud_id = await _deleted(workspace, kind)
    assert await state_of(workspace, kind, cloud_id) == "stopped"
    create, _, stop, _, _ = BY_ITSELF[kind]
    assert await changes(workspace) == [create, stop]


@KINDS
async def test_stop_asks_nothing_more_of_what_is_stopped(workspace: Workspace, kind: str, manifest: Manifest) -> None:
    await workspace.apply(with_spec(manifest, deletionPolicy="Stop", powerState="Stopped"))
    cloud_id = await _deleted(workspace, kind)
    assert await state_of(workspace, kind, cloud_id) == "stopped"
    create, _, stop, _, _ = BY_ITSELF[kind]
    assert await changes(workspace) == [create, stop]
