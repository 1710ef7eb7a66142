"""A cloud that answers badly, or not at all: told after a while, asked with patience, and nothing taken for granted."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.cluster.cloud_log import CREATE_CLUSTER, CREATE_POD, READ_CLUSTER, READ_VM, TERMINATE_VM, count
from tests.support.eventually import eventually
from tests.support.manifests import condition, gpu_cluster, gpu_pod, ready, stalled

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.localcloud import Json
    from tests.support.operator import Operator
    from tests.support.workspace import Workspace

LIST_CLUSTERS = "GET /v1/orgs/{orgId}/clusters"
BALANCE = "GET /v1/orgs/{orgId}/billing/balance"
# The client repeats a read in place so often at most.
ATTEMPTS = 4
TROUBLES: dict[str, Json] = {
    "500": {"status": 500},
    "an HTML page": {"html": True},
    "a body that is cut": {"truncateBytes": 20},
    "a connection that is cut": {"drop": "before"},
    "a proxy's 404": {"status": 404, "body": "<html>not found</html>", "headers": {"Content-Type": "text/html"}},
}


def _unavailable(item: Manifest | None) -> bool:
    return stalled(item) == "CloudUnavailable"


def _well(item: Manifest | None) -> bool:
    return ready(item) and not stalled(item)


def _no_traceback(operator: Operator, workspace: Workspace) -> None:
    lines = operator.log_lines()
    assert [line for line in lines if "raw" in line] == []
    assert [line for line in lines if line.get("namespace") == workspace.namespace and "traceback" in line] == []


@pytest.mark.parametrize("effect", TROUBLES.values(), ids=TROUBLES)
async def test_a_pod_that_cannot_be_read_stays_ready_is_told_of_and_heals(
    brisk_workspace: Workspace, brisk: Operator, effect: Json
) -> None:
    control, organization = brisk_workspace.cloud.control, brisk_workspace.organization
    await brisk_workspace.apply(gpu_pod())
    pod = await brisk_workspace.becomes("GpuPod", "trainer")
    passes, reads = await _passes(brisk, "GpuPod"), await count(brisk_workspace, READ_VM)
    fault = await control.fault(READ_VM, effect, organizationId=organization.id)
    told = await brisk_workspace.becomes("GpuPod", "trainer", _unavailable)
    assert condition(told, "Ready")["status"] == "True"
    assert condition(told, "Ready")["reason"] == "Running"
    assert told["status"]["id"] == pod["status"]["id"]
    assert "nextAttemptTime" in told["status"]
    made = await count(brisk_workspace, READ_VM) - reads
    assert made <= ATTEMPTS * (await _passes(brisk, "GpuPod") - passes + 1)

    await control.call("DELETE", f"/faults/{fault}")
    healed = await brisk_workspace.becomes("GpuPod", "trainer", _well)
    assert healed["status"]["id"] == pod["status"]["id"]
    assert await count(brisk_workspace, CREATE_POD) == 1
    assert await count(brisk_workspace, TERMINATE_VM) == 0
    _no_traceback(brisk, brisk_workspace)


@pytest.mark.parametrize("effect", [TROUBLES["500"], TROUBLES["an HTML page"]], ids=["500", "an HTML page"])
async def test_a_cluster_that_cannot_be_read_likewise(
    brisk_workspace: Workspace, brisk: Operator, effect: Json
) -> None:
    control, organization = brisk_workspace.cloud.control, brisk_workspace.organization
    await brisk_workspace.apply(gpu_cluster(replicas=1))
    cluster = await brisk_workspace.becomes("GpuCluster", "llm")
    for operation in (READ_CLUSTER, LIST_CLUSTERS):
        await control.fault(operation, effect, organizationId=organization.id)
    told = await brisk_workspace.becomes("GpuCluster", "llm", _unavailable)
    assert condition(told, "Ready")["status"] == "True"
    await control.clear_faults()
    healed = await brisk_workspace.becomes("GpuCluster", "llm", _well)
    assert healed["status"]["id"] == cluster["status"]["id"]
    assert await count(brisk_workspace, CREATE_CLUSTER) == 1
    _no_traceback(brisk, brisk_workspace)


async def test_an_account_that_cannot_be_looked_at_stays_ready_is_told_of_and_heals(
    brisk_workspace: Workspace, brisk: Operator
) -> None:
    control, organization = brisk_workspace.cloud.control, brisk_workspace.organization
    await brisk_workspace.becomes("CloudAccount", "default")
    fault = await control.fault(BALANCE, {"status": 500}, organizationId=organization.id)
    told = await brisk_workspace.becomes("CloudAccount", "default", _unavailable)
    assert condition(told, "Ready")["status"] == "True"
    await control.call("DELETE", f"/faults/{fault}")
    await brisk_workspace.becomes("CloudAccount", "default", _well)
    _no_traceback(brisk, brisk_workspace)


async def test_a_deletion_waits_for_a_cloud_that_fails_and_ends_when_it_is_well(
    brisk_workspace: Workspace, brisk: Operator
) -> None:
    control, organization = brisk_workspace.cloud.control, brisk_workspace.organization
    await brisk_workspace.apply(gpu_pod())
    pod = await brisk_workspace.becomes("GpuPod", "trainer")
    faults = [
        await control.fault(operation, {"status": 500}, organizationId=organization.id)
        for operation in (TERMINATE_VM, READ_VM)
    ]
    await brisk_workspace.kube.delete("GpuPod", "trainer")
    await brisk_workspace.becomes("GpuPod", "trainer", _unavailable)
    assert (await brisk_workspace.kube.get("GpuPod", "trainer"))["metadata"]["finalizers"]
    for fault in faults:
        await control.call("DELETE", f"/faults/{fault}")
    await brisk_workspace.is_gone("GpuPod", "trainer")
    assert (await organization.vm(pod["status"]["id"]))["status"] == "terminated"
    _no_traceback(brisk, brisk_workspace)


async def test_one_404_is_not_the_end_of_a_pod(brisk_workspace: Workspace) -> None:
    control, organization = brisk_workspace.cloud.control, brisk_workspace.organization
    await brisk_workspace.apply(gpu_pod(recovery={"onTerminated": "Recreate"}))
    pod = await brisk_workspace.becomes("GpuPod", "trainer")
    missing = {"status": 404, "body": {"error": "There is no such VM.", "code": "not_found"}}
    reads = await count(brisk_workspace, READ_VM)
    await control.fault(READ_VM, missing, count=1, organizationId=organization.id)
    await eventually(lambda: count(brisk_workspace, READ_VM), lambda seen: seen >= reads + 3, what="three more looks")
    after = await brisk_workspace.becomes("GpuPod", "trainer", _well)
    assert after["status"]["id"] == pod["status"]["id"]
    assert await count(brisk_workspace, CREATE_POD) == 1


async def test_a_cloud_that_is_down_and_comes_back_finds_everything_as_it_was(
    brisk_private_workspace: Workspace, brisk: Operator
) -> None:
    await brisk_private_workspace.apply(gpu_pod())
    await brisk_private_workspace.apply(gpu_cluster(replicas=1))
    pod = await brisk_private_workspace.becomes("GpuPod", "trainer")
    cluster = await brisk_private_workspace.becomes("GpuCluster", "llm")
    await brisk_private_workspace.cloud.process.kill()
    for kind, name in (("GpuPod", "trainer"), ("GpuCluster", "llm"), ("CloudAccount", "default")):
        told = await brisk_private_workspace.becomes(kind, name, _unavailable)
        assert condition(told, "Ready")["status"] == "True"
    await brisk_private_workspace.apply(gpu_pod("second"))
    await brisk_private_workspace.becomes("GpuPod", "second", lambda item: condition(item, "Ready"))
    await brisk_private_workspace.cloud.start()
    for kind, name, before in (("GpuPod", "trainer", pod), ("GpuCluster", "llm", cluster)):
        healed = await brisk_private_workspace.becomes(kind, name, _well)
        assert healed["status"]["id"] == before["status"]["id"]
    await brisk_private_workspace.becomes("GpuPod", "second")
    await brisk_private_workspace.becomes("CloudAccount", "default", _well)
    assert len(await brisk_private_workspace.organization.billed()) == 3
    _no_traceback(brisk, brisk_private_workspace)


async def test_a_cloud_that_hangs_holds_up_nobody_else_and_is_asked_once_at_a_time(
    brisk_workspace: Workspace, brisk: Operator
) -> None:
    control, organization = brisk_workspace.cloud.control, brisk_workspace.organization
    await brisk_workspace.apply(gpu_pod())
    pod = await brisk_workspace.becomes("GpuPod", "trainer")
    hanging = await control.fault(READ_VM, {"delaySeconds": 20}, organizationId=organization.id)
    reads, since = await count(brisk_workspace, READ_VM), time.monotonic()
    await brisk_workspace.apply(gpu_cluster(replicas=1))
    await brisk_workspace.becomes("GpuCluster", "llm")
    repeats = (time.monotonic() - since) / 15  # seconds after which the operator gives an attempt up
    assert await count(brisk_workspace, READ_VM) <= reads + 1 + repeats
    await control.end_fault(hanging)
    await eventually(lambda: count(brisk_workspace, READ_VM), lambda seen: seen > reads + 1, what="it is asked again")
    after = await brisk_workspace.becomes("GpuPod", "trainer", _well)
    assert after["status"]["id"] == pod["status"]["id"]
    _no_traceback(brisk, brisk_workspace)


async def _passes(operator: Operator, kind: str) -> float:
    return await operator.metric("gpurelay_reconciles_total", kind=kind)
