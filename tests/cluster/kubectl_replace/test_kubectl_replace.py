"""`kubectl replace` writes an object without what the operator put into it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cluster.cloud_log import BY_ITSELF, SET_VISIBILITY, changes
from tests.support.eventually import PATIENCE_SECONDS, eventually
from tests.support.manifests import condition, gpu_cluster, gpu_pod, ready

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace

INTENT, FINALIZER = "gpurelay.dev/create-intent", "gpurelay.dev/cloud-resource"
KINDS = pytest.mark.parametrize(
    ("kind", "manifest"), [("GpuPod", gpu_pod("one")), ("GpuCluster", gpu_cluster("one"))], ids=["pod", "cluster"]
)


def _token(item: Manifest) -> str:
    token: str = json.loads(item["metadata"]["annotations"][INTENT])["token"]
    return token


@KINDS
async def test_finalizer_and_intent_are_put_back_and_nothing_is_made_twice(
    workspace: Workspace, kind: str, manifest: Manifest
) -> None:
    await workspace.apply(manifest)
    before = await workspace.becomes(kind, "one")
    await workspace.kubectl("replace", "--filename=-", stdin=json.dumps(manifest))

    def protected(item: Manifest | None) -> bool:
        metadata = (item or {})["metadata"]
        return ready(item) and INTENT in metadata.get("annotations", {}) and FINALIZER in metadata.get("finalizers", [])

    after = await workspace.becomes(kind, "one", protected)
    assert _token(after) == _token(before) == after["status"]["createToken"]
    assert after["status"]["id"] == before["status"]["id"]
    create, _, _, _, terminate = BY_ITSELF[kind]
    assert await changes(workspace) == [create]
    await workspace.kube.delete(kind, "one")
    await workspace.is_gone(kind, "one")
    assert await changes(workspace) == [create, terminate]


async def test_a_create_whose_answer_is_lost_is_not_forgotten_with_its_intent(workspace: Workspace) -> None:
    """No webhook tells of it, and the cloud lists no pods: only the operator's memory does."""
    await workspace.becomes("CloudAccount", "default")
    create, organization = BY_ITSELF["GpuPod"][0], workspace.organization.id
    await workspace.cloud.control.fault("webhook", {"lose": True}, organizationId=organization)
    await workspace.cloud.control.fault(create, {"drop": "after"}, count=1, organizationId=organization)
    await workspace.apply(gpu_pod("one"))
    before = await workspace.becomes("GpuPod", "one", lambda item: condition(item, "CreateOutcomeUnknown"))
    await workspace.kubectl("replace", "--filename=-", stdin=json.dumps(gpu_pod("one")))

    def put_back(item: Manifest | None) -> bool:
        metadata = (item or {})["metadata"]
        return metadata.get("finalizers") == [FINALIZER] and INTENT in metadata.get("annotations", {})

    after = await workspace.becomes("GpuPod", "one", put_back)
    assert _token(after) == _token(before)
    (made,) = await eventually(workspace.organization.billed, what="the cloud acted on it")
    await workspace.kube.annotate("GpuPod", "one", {"gpurelay.dev/adopt-id": made["resourceId"]})
    assert (await workspace.becomes("GpuPod", "one"))["status"]["id"] == made["resourceId"]
    assert await changes(workspace) == [create]


async def test_a_change_that_comes_with_the_replacement_is_made_in_place(workspace: Workspace) -> None:
    await workspace.apply(gpu_pod())
    before = await workspace.becomes("GpuPod", "trainer")
    await workspace.kubectl("replace", "--filename=-", stdin=json.dumps(gpu_pod(public=True)))
    after = await workspace.becomes("GpuPod", "trainer", lambda pod: ready(pod) and (pod or {})["status"]["public"])
    assert after["status"]["id"] == before["status"]["id"]
    assert await changes(workspace) == [BY_ITSELF["GpuPod"][0], SET_VISIBILITY]


async def test_replace_by_force_ends_the_old_resource_and_makes_one_new_one(workspace: Workspace) -> None:
    await workspace.apply(gpu_pod())
    before = await workspace.becomes("GpuPod", "trainer")
    await workspace.kubectl(
        "replace", "--force", f"--timeout={PATIENCE_SECONDS:g}s", "--filename=-", stdin=json.dumps(gpu_pod())
    )
    after = await workspace.becomes("GpuPod", "trainer")
    assert after["status"]["id"] != before["status"]["id"]
    assert (await workspace.organization.vm(before["status"]["id"]))["status"] == "terminated"
    create, _, _, _, terminate = BY_ITSELF["GpuPod"]
    assert await changes(workspace) == [create, terminate, create]
