"""`lifetime`: how long it runs, and how long it is kept."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from tests.cluster.cloud_log import BY_ITSELF, changes
from tests.support.manifests import condition, gpu_cluster, gpu_pod, ready, tells, with_spec

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace

KINDS = pytest.mark.parametrize(
    ("kind", "manifest"), [("GpuPod", gpu_pod("one")), ("GpuCluster", gpu_cluster("one"))], ids=["pod", "cluster"]
)


def _used_up(item: Manifest | None) -> bool:
    return ready(item) and condition(item, "Ready")["reason"] == "MaxRuntimeReached"


async def _has_run_for_a_day(workspace: Workspace, kind: str) -> None:
    """Its status, had it begun a day earlier; then somebody asks for a look."""
    begun = {"status": {"runningSince": "2026-01-01T00:00:00Z"}}
    await workspace.kube.patch(kind, "one", begun, subresource="status")
    await workspace.kube.annotate(kind, "one", {"gpurelay.dev/reconcile-at": "a day later"})


@KINDS
async def test_it_is_stopped_when_its_time_is_up_and_a_restart_begins_anew(
    workspace: Workspace, kind: str, manifest: Manifest
) -> None:
    await workspace.apply(with_spec(manifest, lifetime={"maxRuntimeSeconds": 3600}))
    before = await workspace.becomes(kind, "one")
    await _has_run_for_a_day(workspace, kind)
    stopped = await workspace.becomes(kind, "one", _used_up)
    assert stopped["status"]["state"] == "stopped"
    create, _, stop, restart, _ = BY_ITSELF[kind]
    assert await changes(workspace) == [create, stop]
    await workspace.kube.annotate(kind, "one", {"gpurelay.dev/restarted-at": "2026-11-21T10:00:00Z"})

    def runs_again(item: Manifest | None) -> bool:
        return ready(item) and condition(item, "Ready")["reason"] == "Running"

    after = await workspace.becomes(kind, "one", runs_again)
    assert after["status"]["id"] == before["status"]["id"]
    assert after["status"]["runningSince"] >= before["status"]["runningSince"]
    assert await changes(workspace) == [create, stop, restart]


def _hours(start: int, stop: int) -> Manifest:
    """From the one hour of the clock to the other, counted from now, so that a test does not meet either."""
    now = datetime.now(UTC)
    begin, end = ((now + timedelta(hours=hours)).hour for hours in (start, stop))
    return {"schedule": {"start": f"0 {begin} * * *", "stop": f"0 {end} * * *"}}


@KINDS
async def test_it_is_created_in_its_window_and_stopped_outside(
    workspace: Workspace, kind: str, manifest: Manifest
) -> None:
    await workspace.apply(with_spec(manifest, lifetime=_hours(6, -6)))
    waiting = await workspace.becomes(kind, "one", tells("OutsideSchedule"))
    assert not ready(waiting)
    assert waiting["status"]["nextScheduleTime"] > waiting["metadata"]["creationTimestamp"]
    assert await changes(workspace) == []
    await workspace.kube.patch(kind, "one", {"spec": {"lifetime": _hours(-6, 6)}})
    await workspace.becomes(kind, "one", tells("Running"))
    await workspace.kube.patch(kind, "one", {"spec": {"lifetime": _hours(6, -6)}})
    resting = await workspace.becomes(kind, "one", lambda item: ready(item) and tells("OutsideSchedule")(item))
    assert resting["status"]["state"] == "stopped"
    create, _, stop, *_ = BY_ITSELF[kind]
    assert await changes(workspace) == [create, stop]


@KINDS
async def test_stopped_for_long_enough_it_is_deleted_with_its_resource(
    workspace: Workspace, kind: str, manifest: Manifest
) -> None:
    await workspace.apply(with_spec(manifest, lifetime={"ttlSecondsAfterStopped": 1}))
    cloud_id = (await workspace.becomes(kind, "one"))["status"]["id"]
    await workspace.kube.patch(kind, "one", {"spec": {"powerState": "Stopped"}})
    await workspace.is_gone(kind, "one")
    organization = workspace.organization
    record = await (organization.vm if kind == "GpuPod" else organization.cluster)(cloud_id)
    assert record["status"] == "terminated"


async def test_time_used_up_and_then_kept_for_a_while_it_goes_by_itself(workspace: Workspace) -> None:
    lifetime = {"maxRuntimeSeconds": 3600, "ttlSecondsAfterStopped": 0}
    await workspace.apply(with_spec(gpu_pod("one"), lifetime=lifetime))
    await workspace.becomes("GpuPod", "one")
    await _has_run_for_a_day(workspace, "GpuPod")
    await workspace.is_gone("GpuPod", "one")
    create, _, stop, _, terminate = BY_ITSELF["GpuPod"]
    assert await changes(workspace) == [create, stop, terminate]


async def test_one_that_runs_is_not_deleted_however_short_its_keeping(workspace: Workspace) -> None:
    await workspace.apply(with_spec(gpu_pod("one"), lifetime={"ttlSecondsAfterStopped": 0}))
    await workspace.becomes("GpuPod", "one")
    await workspace.kube.annotate("GpuPod", "one", {"gpurelay.dev/reconcile-at": "again"})
    looked = await workspace.becomes("GpuPod", "one", lambda pod: (pod or {})["status"].get("reconcileAt") == "again")
    assert ready(looked)
