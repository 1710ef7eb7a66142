"""`kubectl relay adopt`, as people run it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.eventually import eventually
from tests.support.manifests import gpu_pod, stalled

if TYPE_CHECKING:
    from tests.support.workspace import Workspace

ADOPT_ID = "gpurelay.dev/adopt-id"


async def test_what_the_cloud_shows_is_adopted_and_nothing_else(workspace: Workspace) -> None:
    body = {"image": "pytorch/pytorch:2.9.0", "name": "by-hand", "gpuModelId": "l40s", "volumeGb": 80}
    cloud_id = (await workspace.organization.call("POST", "/v1/pods", body))["id"]
    await eventually(lambda: workspace.organization.vm(cloud_id), lambda vm: vm["status"] == "running")
    paused = gpu_pod(volumeGb=80)
    paused["metadata"]["annotations"] = {"gpurelay.dev/paused": "true"}
    await workspace.apply(paused)
    await workspace.becomes("CloudAccount", "default")

    unknown = await workspace.kubectl.relay("adopt", "gpod/trainer", "pod_of_nobody")
    assert (unknown.exit_code, unknown.stdout) == (1, "")
    assert unknown.stderr.startswith(
        f"kubectl relay: the cloud of CloudAccount/{workspace.namespace}/default: get_vm: 404"
    )
    assert ADOPT_ID not in (await workspace.kube.get("GpuPod", "trainer"))["metadata"]["annotations"]

    adopted = await workspace.kubectl.relay("adopt", "gpod/trainer", cloud_id)
    assert adopted.stdout.startswith(f"{cloud_id}: by-hand, running, 1 l40s, ")
    await workspace.kube.annotate("GpuPod", "trainer", {"gpurelay.dev/paused": "false"})
    pod = await workspace.becomes("GpuPod", "trainer")
    assert (pod["status"]["id"], stalled(pod)) == (cloud_id, "")

    again = await workspace.kubectl.relay("adopt", "gpod/trainer", "pod_of_nobody")
    assert (again.exit_code, f"has {cloud_id} in the cloud already" in again.stderr) == (1, True)


async def test_what_is_no_object_of_ours_is_not_annotated(workspace: Workspace) -> None:
    for reference, sentence in {
        "trainer": "write KIND/NAME",
        "secret/relay-api-key": "is a Secret, not an object",
    }.items():
        refused = await workspace.kubectl.relay("adopt", reference, "pod_1")
        assert (refused.exit_code, sentence in refused.stderr) == (2, True)
        assert workspace.organization.api_key not in refused.stderr
