"""Stopping and starting by `powerState`, for every kind of workload."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.cloud_log import BY_ITSELF, changes, count
from tests.support.eventually import eventually
from tests.support.manifests import condition, gpu_cluster, gpu_pod, ready

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace

KINDS = pytest.mark.parametrize(
    ("kind", "manifest"), [("GpuPod", gpu_pod("one")), ("GpuCluster", gpu_cluster("one"))], ids=["pod", "cluster"]
)


def _stopped(item: Manifest | None) -> bool:
    return ready(item) and condition(item, "Ready")["reason"] == "Stopped"


def _running(item: Manifest | None) -> bool:
    return ready(item) and condition(item, "Ready")["reason"] == "Running"


async def _power(workspace: Workspace, kind: str, state: str) -> None:
    await workspace.kube.patch(kind, "one", {"spec": {"powerState": state}})


async def _held(workspace: Workspace, cloud_id: str) -> int:
    """GPUs that it holds, by the cloud's nodes."""
    nodes = await workspace.cloud.control.nodes()
    return sum(unit["workloadId"] == cloud_id for node in nodes for unit in node["units"])


@KINDS
async def test_it_is_stopped_and_started_again_in_place(workspace: Workspace, kind: str, manifest: Manifest) -> None:
    await workspace.apply(manifest)
    before = (await workspace.becomes(kind, "one", _running))["status"]
    await _power(workspace, kind, "Stopped")
    stopped = (await workspace.becomes(kind, "one", _stopped))["status"]
    assert (stopped["id"], stopped["state"]) == (before["id"], "stopped")
    assert before.get("payingPerHourCents") == before.get("pricePerHourCents"), "the cloud tells that of a pod alone"
    assert "payingPerHourCents" not in stopped
    assert await _held(workspace, before["id"]) == 0
    await _power(workspace, kind, "Running")
    started = (await workspace.becomes(kind, "one", _running))["status"]
    assert (started["id"], started["state"]) == (before["id"], "running")
    create, _, stop, restart, _ = BY_ITSELF[kind]
    assert await changes(workspace) == [create, stop, restart]


@KINDS
async def test_stopped_outside_it_is_started_again(workspace: Workspace, kind: str, manifest: Manifest) -> None:
    await workspace.apply(manifest)
    before = (await workspace.becomes(kind, "one", _running))["status"]
    create, _, stop, restart, _ = BY_ITSELF[kind]
    await workspace.organization.call("POST", stop.partition(" ")[2].replace("{id}", before["id"]))
    await workspace.kube.annotate(kind, "one", {"gpurelay.dev/reconcile-at": "after the stop"})

    what = "it is started again"
    await eventually(lambda: changes(workspace), lambda made: made == [create, stop, restart], what=what)
    started = (await workspace.becomes(kind, "one", _running))["status"]
    assert started["id"] == before["id"]


@KINDS
async def test_it_is_not_started_again_while_the_cloud_still_shows_it_stopped(
    brisk_workspace: Workspace, kind: str, manifest: Manifest
) -> None:
    workspace, organization = brisk_workspace, brisk_workspace.organization
    create, read, stop, restart, _ = BY_ITSELF[kind]
    await workspace.apply(manifest | {"spec": manifest["spec"] | {"powerState": "Stopped"}})
    await workspace.becomes(kind, "one", _stopped)
    before = await changes(workspace)
    as_before = await workspace.cloud.control.fault(read, {"staleSeconds": 86_400}, organizationId=organization.id)
    await _power(workspace, kind, "Running")
    await eventually(lambda: count(workspace, restart), bool, what="it is started")
    reads = await count(workspace, read)
    await eventually(lambda: count(workspace, read), lambda seen: seen > reads + 3, what="it is looked at again")
    await workspace.cloud.control.end_fault(as_before)
    await workspace.becomes(kind, "one", _running)
    assert await changes(workspace) == [*before, restart]
    assert before in ([create], [create, stop])


@KINDS
async def test_made_with_power_state_stopped_it_ends_stopped(
    workspace: Workspace, kind: str, manifest: Manifest
) -> None:
    await workspace.apply(manifest | {"spec": manifest["spec"] | {"powerState": "Stopped"}})
    stopped = await workspace.becomes(kind, "one", _stopped)
    assert await _held(workspace, stopped["status"]["id"]) == 0
    create, _, stop, _, _ = BY_ITSELF[kind]
    assert await changes(workspace) == [create, stop]
