"""Texts of the cloud with control characters, or without end: legible wherever people meet them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.cluster.batch_side import batch, put_prompts, record
from tests.cluster.cloud_log import READ_CLUSTER, READ_VM
from tests.support.eventually import eventually
from tests.support.manifests import gpu_cluster, gpu_pod, tells

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.operator import Operator
    from tests.support.workspace import Workspace

ODD = "\x1b[2Jalert\r\n\u202e" + "x" * 100_000
READ_BATCH = "GET /v1/batches/{id}"


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for each in inner for text in _texts(each)]


def _alerted(item: Manifest | None) -> bool:
    return "alert" in json.dumps((item or {}).get("status", {}))


def _is_legible(item: Manifest) -> bool:
    return all(text.isprintable() and len(text) <= 2048 for text in _texts(item["status"]))


async def test_status_messages_and_the_log_are_legible(brisk_private_workspace: Workspace, brisk: Operator) -> None:
    workspace, control = brisk_private_workspace, brisk_private_workspace.cloud.control
    await put_prompts(workspace, [record("r1")])
    await workspace.apply(gpu_pod())
    await workspace.apply(gpu_cluster(replicas=1))
    pod, cluster = await workspace.becomes("GpuPod", "trainer"), await workspace.becomes("GpuCluster", "llm")
    await control.clock(mode="frozen")
    await workspace.apply(batch())
    running = await workspace.becomes("InferenceBatch", "nightly", tells("Running"))
    organization = workspace.organization
    vm, detail = await organization.vm(pod["status"]["id"]), await organization.cluster(cluster["status"]["id"])
    odd = {"status": ODD, "statusReason": ODD, "endpointUrl": ODD, "provisioningStage": ODD, "tier": ODD}
    replicas = [{**replica, "status": ODD, "nodeRegion": ODD, "healthy": False} for replica in detail["replicas"]]
    bodies = {
        READ_VM: {**vm, **odd},
        READ_CLUSTER: {**detail, **odd, "replicas": replicas},
        READ_BATCH: {"id": running["status"]["batchId"], "status": ODD, "errors": {"data": [{"code": ODD}]}},
    }
    for operation, body in bodies.items():
        await control.fault(operation, {"status": 200, "body": body}, organizationId=organization.id)
    await workspace.kube.patch("GpuCluster", "llm", {"spec": {"replicas": 2}})
    for kind, name in (("GpuPod", "trainer"), ("GpuCluster", "llm"), ("InferenceBatch", "nightly")):
        assert _is_legible(await workspace.becomes(kind, name, _alerted))
    await control.clear_faults()
    await control.clock(mode="real")

    async def logged() -> list[str]:
        lines = [line for line in brisk.log_lines() if line.get("namespace") == workspace.namespace]
        return [text for line in lines for text in _texts(line)]

    texts = await eventually(logged, lambda found: any("alert" in text for text in found), what="a line of the log")
    assert [text for text in texts if not text.isprintable()] == []
