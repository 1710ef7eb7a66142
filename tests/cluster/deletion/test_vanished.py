"""Deleted in the moment in which its finalizer is written, an object goes at once: its resource ends all the same."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.cluster.cloud_log import BY_ITSELF, changes, left
from tests.cluster.deletion.slow_delete import slow_delete
from tests.conftest import OPERATOR_NAMESPACE
from tests.support.eventually import eventually
from tests.support.manifests import gpu_cluster, gpu_pod

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import StartOperator
    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace

PAUSED = "gpurelay.dev/paused"
FINALIZER = "gpurelay.dev/cloud-resource"


async def _go_at_once(workspace: Workspace, folder: Path, manifest: Manifest) -> str:
    """The object goes though its finalizer is there and it has an id, which is answered."""
    kind, kube = manifest["kind"], workspace.kube
    await workspace.becomes("CloudAccount", "default")
    await workspace.apply(manifest | {"metadata": {**manifest["metadata"], "annotations": {PAUSED: "true"}}})
    async with slow_delete(workspace, folder) as slow:
        deletion = asyncio.create_task(kube.delete(kind, "one"))
        async with asyncio.timeout(30):
            await slow.began.wait()
        await kube.annotate(kind, "one", {PAUSED: None})
        created = await workspace.becomes(kind, "one")
        assert created["metadata"]["finalizers"] == [FINALIZER]
        slow.may_end.set()
        await deletion
    assert await kube.find(kind, "one") is None
    cloud_id: str = created["status"]["id"]
    return cloud_id


async def _left_behind(workspace: Workspace) -> list[str]:
    """Names of the operator's ConfigMaps that keep something of this workspace."""
    known = await workspace.kube.list("ConfigMap", OPERATOR_NAMESPACE, labelSelector="gpurelay.dev/vanished=true")
    return [one["metadata"]["name"] for one in known if workspace.namespace in one["data"]["object.json"]]


@pytest.mark.parametrize("manifest", [gpu_pod("one"), gpu_cluster("one")], ids=["pod", "cluster"])
async def test_what_it_had_is_terminated(workspace: Workspace, tmp_path: Path, manifest: Manifest) -> None:
    await _go_at_once(workspace, tmp_path, manifest)
    create, _, _, _, terminate = BY_ITSELF[manifest["kind"]]
    await eventually(lambda: left(workspace), lambda alive: alive == [], what="nothing is left in the cloud")
    assert await changes(workspace) == [create, terminate]
    await eventually(lambda: _left_behind(workspace), lambda kept: kept == [], what="nothing is remembered of it")


async def test_the_next_process_goes_on_with_it(
    unattended_workspace: Workspace, start_operator: StartOperator, tmp_path: Path
) -> None:
    workspace, operator = unattended_workspace, await start_operator(unattended_workspace)
    control, (_, _, _, _, terminate) = workspace.cloud.control, BY_ITSELF["GpuPod"]
    fault = await control.fault(terminate, {"status": 503}, organizationId=workspace.organization.id)
    await _go_at_once(workspace, tmp_path, gpu_pod("one"))
    await eventually(lambda: _left_behind(workspace), what="it is written down")
    await operator.kill()
    await control.call("DELETE", f"/faults/{fault}")
    assert len(await left(workspace)) == 1
    await operator.start()
    await eventually(lambda: left(workspace), lambda alive: alive == [], what="nothing is left in the cloud")
    await eventually(lambda: _left_behind(workspace), lambda kept: kept == [], what="nothing is remembered of it")
