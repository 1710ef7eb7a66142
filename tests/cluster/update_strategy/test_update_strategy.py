"""A field changes that the cloud cannot change in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.cloud_log import BY_ITSELF, changes, count
from tests.support.manifests import condition, gpu_cluster, gpu_pod, ready, stalled, with_spec

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace

RECREATE = {"type": "Recreate"}
KINDS = pytest.mark.parametrize(
    ("kind", "manifest"), [("GpuPod", gpu_pod("one")), ("GpuCluster", gpu_cluster("one"))], ids=["pod", "cluster"]
)


def _refused(item: Manifest | None) -> bool:
    return stalled(item) == "ImmutableFieldChanged"


async def _image(workspace: Workspace, kind: str, cloud_id: str) -> str:
    organization = workspace.organization
    record = await (organization.vm if kind == "GpuPod" else organization.cluster)(cloud_id)
    image: str = record["imageUrl"]
    return image


@KINDS
async def test_never_changes_nothing_names_the_field_and_is_content_once_it_is_put_back(
    workspace: Workspace, kind: str, manifest: Manifest
) -> None:
    await workspace.apply(manifest)
    before = await workspace.becomes(kind, "one")
    await workspace.apply(with_spec(manifest, image="example.com/other:1"))
    message = condition(await workspace.becomes(kind, "one", _refused), "Stalled")["message"]
    assert f"image: asked example.com/other:1, has {manifest['spec']['image']}" in message
    assert "updateStrategy.type: Recreate" in message
    await workspace.apply(manifest)
    after = await workspace.becomes(kind, "one")
    assert after["status"]["id"] == before["status"]["id"]
    assert await changes(workspace) == [BY_ITSELF[kind][0]]


async def test_what_the_cloud_does_not_report_is_compared_with_what_was_sent(workspace: Workspace) -> None:
    await workspace.apply(gpu_pod(env=[{"name": "EPOCHS", "value": "3"}], shmSizeGb=4))
    await workspace.becomes("GpuPod", "trainer")
    await workspace.apply(gpu_pod(env=[{"name": "EPOCHS", "value": "4"}], shmSizeGb=8))
    message = condition(await workspace.becomes("GpuPod", "trainer", _refused), "Stalled")["message"]
    assert "env" in message
    assert "shmSizeGb" in message
    assert "httpPort" not in message


async def test_a_pod_whose_power_changes_together_with_its_image_is_told_of_the_image_first(
    workspace: Workspace,
) -> None:
    await workspace.apply(gpu_pod())
    await workspace.becomes("GpuPod", "trainer")
    await workspace.apply(gpu_pod(image="example.com/other:1", powerState="Stopped"))
    await workspace.becomes("GpuPod", "trainer", _refused)
    await workspace.apply(gpu_pod(powerState="Stopped"))
    stopped = await workspace.becomes("GpuPod", "trainer")
    assert stopped["status"]["state"] == "stopped"


@KINDS
async def test_recreate_ends_the_old_one_before_it_makes_the_new_one(
    workspace: Workspace, kind: str, manifest: Manifest
) -> None:
    await workspace.apply(with_spec(manifest, updateStrategy=RECREATE))
    before = (await workspace.becomes(kind, "one"))["status"]["id"]
    await workspace.apply(with_spec(manifest, updateStrategy=RECREATE, image="example.com/other:1"))
    after = (await workspace.becomes(kind, "one", ready))["status"]["id"]
    assert after != before
    assert await _image(workspace, kind, after) == "example.com/other:1"
    organization = workspace.organization
    old = await (organization.vm if kind == "GpuPod" else organization.cluster)(before)
    assert old["status"] == "terminated"
    create, _, _, _, terminate = BY_ITSELF[kind]
    assert await changes(workspace) == [create, terminate, create]


async def test_a_stall_is_resolved_by_turning_to_recreate(workspace: Workspace) -> None:
    await workspace.apply(gpu_pod())
    before = (await workspace.becomes("GpuPod", "trainer"))["status"]["id"]
    await workspace.apply(gpu_pod(volumeGb=100))
    await workspace.becomes("GpuPod", "trainer", _refused)
    await workspace.apply(gpu_pod(volumeGb=100, updateStrategy=RECREATE))
    after = await workspace.becomes("GpuPod", "trainer")
    assert (after["status"]["id"] != before, after["status"]["volumeGb"]) == (True, 100)
    assert await count(workspace, BY_ITSELF["GpuPod"][0]) == 2
