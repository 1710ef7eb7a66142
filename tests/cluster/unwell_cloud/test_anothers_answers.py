"""A proxy that answers with another's resource: nothing of it is believed, whatever it says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.batch_side import CREATE_BATCH, batch, complete, put_prompts, record
from tests.cluster.cloud_log import CREATE_POD, READ_CLUSTER, READ_VM, TERMINATE_VM, count
from tests.support.eventually import eventually
from tests.support.manifests import condition, gpu_cluster, gpu_pod, ready, stalled, tells

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.localcloud import Json
    from tests.support.workspace import Workspace

READ_BATCH = "GET /v1/batches/{id}"


def _disbelieving(item: Manifest | None) -> bool:
    return stalled(item) == "CloudUnavailable"


def _well(item: Manifest | None) -> bool:
    return ready(item) and not stalled(item)


def _about(cloud_id: str, **fields: object) -> Json:
    return {"status": 200, "body": {"id": cloud_id, "status": "terminated", **fields}}


@pytest.mark.parametrize("cloud_id", ["pod-of-another", "..", ""], ids=["another's id", "no id", "its own, nameless"])
async def test_a_pod_that_is_said_to_be_terminated_under_another_id_lives_on(
    brisk_workspace: Workspace, cloud_id: str
) -> None:
    control, organization = brisk_workspace.cloud.control, brisk_workspace.organization
    await brisk_workspace.apply(gpu_pod(recovery={"onTerminated": "Recreate"}))
    pod = await brisk_workspace.becomes("GpuPod", "trainer")
    effect = _about(cloud_id or pod["status"]["id"])
    fault = await control.fault(READ_VM, effect, organizationId=organization.id)
    told = await brisk_workspace.becomes("GpuPod", "trainer", _disbelieving)
    assert told["status"]["id"] == pod["status"]["id"]
    await brisk_workspace.kube.delete("GpuPod", "trainer")
    before = await count(brisk_workspace, READ_VM)
    await eventually(lambda: count(brisk_workspace, READ_VM), lambda seen: seen >= before + 4, what="four more looks")
    going = await brisk_workspace.kube.get("GpuPod", "trainer")
    assert going["status"]["id"] == pod["status"]["id"]
    assert going["metadata"]["finalizers"]
    assert await count(brisk_workspace, CREATE_POD) == 1
    await control.end_fault(fault)
    await brisk_workspace.is_gone("GpuPod", "trainer")
    assert await count(brisk_workspace, TERMINATE_VM) > 0
    assert (await organization.vm(pod["status"]["id"]))["status"] == "terminated"


async def test_a_cluster_likewise(brisk_workspace: Workspace) -> None:
    control, organization = brisk_workspace.cloud.control, brisk_workspace.organization
    await brisk_workspace.apply(gpu_cluster(replicas=1))
    cluster = await brisk_workspace.becomes("GpuCluster", "llm")
    detail = await organization.cluster(cluster["status"]["id"])
    effect = {"status": 200, "body": {**detail, "id": "another", "status": "terminated"}}
    await control.fault(READ_CLUSTER, effect, organizationId=organization.id)
    await brisk_workspace.kube.patch("GpuCluster", "llm", {"spec": {"replicas": 2}})
    told = await brisk_workspace.becomes("GpuCluster", "llm", _disbelieving)
    assert told["status"]["id"] == cluster["status"]["id"]
    await control.clear_faults()
    await brisk_workspace.becomes("GpuCluster", "llm", _well)


@pytest.mark.parametrize(
    "fields",
    [{"id": "batch-of-another"}, {"metadata": None}, {"metadata": {"gpurelay.dev/part": "other/1/1/1/1"}}],
    ids=["another's id", "its own, nobody's", "its own, another's"],
)
async def test_a_batch_that_is_said_to_be_over_is_neither_sent_again_nor_given_up(
    brisk_private_workspace: Workspace, fields: Json
) -> None:
    control, organization = brisk_private_workspace.cloud.control, brisk_private_workspace.organization
    await control.clock(mode="frozen")
    await put_prompts(brisk_private_workspace, [record("r1")])
    await brisk_private_workspace.apply(batch(retryPolicy={"maxAttempts": 3}))
    running = await brisk_private_workspace.becomes("InferenceBatch", "nightly", tells("Running"))
    over = {"id": running["status"]["batchId"], "status": "expired", "request_counts": {"total": 1}, **fields}
    await control.fault(READ_BATCH, {"status": 200, "body": over}, organizationId=organization.id)
    told = await brisk_private_workspace.becomes("InferenceBatch", "nightly", _disbelieving)
    assert told["status"]["batchId"] == running["status"]["batchId"]
    assert condition(told, "Ready")["status"] == "True"
    await control.clear_faults()
    await control.clock(mode="real")
    await brisk_private_workspace.becomes("InferenceBatch", "nightly", complete)
    assert await count(brisk_private_workspace, CREATE_BATCH) == 1
