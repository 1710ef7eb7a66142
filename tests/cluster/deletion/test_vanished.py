"""Deleted in the moment in which its finalizer is written, an object goes at once: its resource ends all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.cloud_log import BY_ITSELF, changes, left
from tests.cluster.slow_delete import go_at_once
from tests.conftest import OPERATOR_NAMESPACE
from tests.support.eventually import eventually
from tests.support.manifests import gpu_cluster, gpu_pod

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import StartOperator
    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace


async def _left_behind(workspace: Workspace) -> list[str]:
    """Names of the operator's ConfigMaps that keep something of this workspace."""
    known = await workspace.kube.list("ConfigMap", OPERATOR_NAMESPACE, labelSelector="gpurelay.dev/vanished=true")
    return [one["metadata"]["name"] for one in known if workspace.namespace in one["data"]["object.json"]]


@pytest.mark.parametrize("manifest", [gpu_pod("one"), gpu_cluster("one")], ids=["pod", "cluster"])
async def test_what_it_had_is_terminated(workspace: Workspace, tmp_path: Path, manifest: Manifest) -> None:
    await go_at_once(workspace, tmp_path, manifest)
    create, _, _, _, terminate = BY_ITSELF[manifest["kind"]]
    await eventually(lambda: left(workspace), lambda alive: alive == [], what="nothing is left in the cloud")
    assert await changes(workspace) == [create, terminate]
    await eventually(lambda: _left_behind(workspace), lambda kept: kept == [], what="nothing is remembered of it")


def unclaimed(account: Manifest | None) -> object:
    return (account or {}).get("status", {}).get("unclaimed")


async def test_the_next_process_goes_on_with_it(
    unattended_workspace: Workspace, start_operator: StartOperator, tmp_path: Path
) -> None:
    workspace, operator = unattended_workspace, await start_operator(unattended_workspace)
    control, (_, _, _, _, terminate) = workspace.cloud.control, BY_ITSELF["GpuPod"]
    fault = await control.fault(terminate, {"status": 503}, organizationId=workspace.organization.id)
    await go_at_once(workspace, tmp_path, gpu_pod("one"))
    await eventually(lambda: _left_behind(workspace), what="it is written down")
    cloud_id = (await left(workspace))[0]
    told = await workspace.becomes("CloudAccount", "default", unclaimed)
    (one,) = told["status"]["unclaimed"]
    assert (one["kind"], one["of"], one["id"]) == ("GpuPod", f"{workspace.namespace}/one", cloud_id)
    assert one["name"].startswith(workspace.namespace[:20])
    await operator.kill()
    await control.call("DELETE", f"/faults/{fault}")
    assert len(await left(workspace)) == 1
    await operator.start()
    await eventually(lambda: left(workspace), lambda alive: alive == [], what="nothing is left in the cloud")
    await eventually(lambda: _left_behind(workspace), lambda kept: kept == [], what="nothing is remembered of it")
    await workspace.becomes("CloudAccount", "default", lambda account: not unclaimed(account))
