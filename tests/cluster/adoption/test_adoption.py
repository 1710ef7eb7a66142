"""`gpurelay.dev/adopt-id`: taking over what exists, once, and only where the spec says what it is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.cluster.cloud_log import CREATE_CLUSTER, CREATE_POD, READ_VM, SCALE_CLUSTER, TERMINATE_VM, changes, count
from tests.support.eventually import eventually
from tests.support.manifests import condition, gpu_cluster, gpu_pod, ready, stalled

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.localcloud import Json
    from tests.support.workspace import Workspace

ADOPT_ID, INTENT = "gpurelay.dev/adopt-id", "gpurelay.dev/create-intent"


def _adopting(manifest: Manifest, cloud_id: str) -> Manifest:
    return manifest | {"metadata": manifest["metadata"] | {"annotations": {ADOPT_ID: cloud_id}}}


def _refused(item: Manifest | None) -> bool:
    return stalled(item) == "AdoptionRefused"


def _message(item: Manifest) -> str:
    message: str = condition(item, "Stalled")["message"]
    return message


async def test_a_pod_that_fits_becomes_the_objects_own(workspace: Workspace, pod_id: str) -> None:
    await workspace.apply(_adopting(gpu_pod(count=2, volumeGb=80), pod_id))
    pod = await workspace.becomes("GpuPod", "trainer")
    assert (pod["status"]["id"], pod["status"]["cloudName"]) == (pod_id, "by-hand")
    assert "gpurelay.dev/cloud-resource" in pod["metadata"]["finalizers"]
    await workspace.kube.delete("GpuPod", "trainer")
    await workspace.is_gone("GpuPod", "trainer")
    assert (await workspace.organization.vm(pod_id))["status"] == "terminated"
    assert await changes(workspace) == [CREATE_POD, TERMINATE_VM]


async def test_a_cluster_is_adopted_and_then_scaled_as_the_spec_asks(workspace: Workspace, cluster_id: str) -> None:
    await workspace.apply(_adopting(gpu_cluster(replicas=2), cluster_id))

    def scaled(cluster: Manifest | None) -> bool:
        return ready(cluster) and (cluster or {})["status"]["readyReplicas"] == 2

    cluster = await workspace.becomes("GpuCluster", "llm", scaled)
    assert cluster["status"]["id"] == cluster_id
    assert await changes(workspace) == [CREATE_CLUSTER, SCALE_CLUSTER]


async def test_a_difference_is_shown_and_adoption_goes_on_once_the_spec_fits(workspace: Workspace, pod_id: str) -> None:
    await workspace.apply(_adopting(gpu_pod(image="pytorch/pytorch:2.8.0", count=1, volumeGb=80), pod_id))
    refused = await workspace.becomes("GpuPod", "trainer", _refused)
    assert "image: asked pytorch/pytorch:2.8.0, has pytorch/pytorch:2.9.0" in _message(refused)
    assert "gpu.count: asked 1, has 2" in _message(refused)
    assert "volumeGb" not in _message(refused)
    assert "id" not in refused["status"]
    await workspace.apply(_adopting(gpu_pod(count=2, volumeGb=80), pod_id))
    assert (await workspace.becomes("GpuPod", "trainer"))["status"]["id"] == pod_id
    assert await changes(workspace) == [CREATE_POD]


async def test_a_refused_resource_is_never_treated_as_the_objects_own(workspace: Workspace, cluster_id: str) -> None:
    connection = {"secret": {"name": "llm-endpoint"}}
    await workspace.apply(_adopting(gpu_cluster(count=2, connection=connection), cluster_id))
    await workspace.becomes("GpuCluster", "llm", _refused)
    await workspace.kube.annotate("GpuCluster", "llm", {"gpurelay.dev/reconcile-at": "again"})
    refused = await workspace.becomes("GpuCluster", "llm", lambda item: (item or {})["status"].get("reconcileAt"))
    assert "finalizers" not in refused["metadata"]
    assert await workspace.kube.find("Secret", "llm-endpoint") is None
    await workspace.kube.delete("GpuCluster", "llm")
    await workspace.is_gone("GpuCluster", "llm")
    assert (await workspace.organization.cluster(cluster_id))["status"] == "running"
    assert await changes(workspace) == [CREATE_CLUSTER]


async def test_what_belongs_to_another_object_is_refused_by_its_name(workspace: Workspace) -> None:
    await workspace.apply(gpu_pod("owner"))
    owner = await workspace.becomes("GpuPod", "owner")
    await workspace.apply(_adopting(gpu_pod("thief"), owner["status"]["id"]))
    refused = await workspace.becomes("GpuPod", "thief", _refused)
    assert f"belongs to GpuPod/{workspace.namespace}/owner" in _message(refused)
    assert await count(workspace, CREATE_POD) == 1


async def _made_unheard(workspace: Workspace, name: str) -> tuple[Manifest, str]:
    """A pod whose create was acted on, with no answer and no webhook, and its id."""
    await workspace.becomes("CloudAccount", "default")
    control, organization = workspace.cloud.control, workspace.organization
    await control.fault("webhook", {"lose": True}, organizationId=organization.id)
    known = {row["resourceId"] for row in await organization.billed()}
    await control.fault(CREATE_POD, {"drop": "after"}, count=1, organizationId=organization.id)
    await workspace.apply(gpu_pod(name))
    item = await workspace.becomes("GpuPod", name, lambda item: condition(item, "CreateOutcomeUnknown"))

    async def made() -> list[str]:
        return [row["resourceId"] for row in await organization.billed() if row["resourceId"] not in known]

    (cloud_id,) = await eventually(made, what="the cloud acted on it")
    return item, cloud_id


async def test_while_a_create_is_searched_for_nothing_else_is_adopted(workspace: Workspace, pod_id: str) -> None:
    _, made = await _made_unheard(workspace, "trainer")
    await workspace.kube.annotate("GpuPod", "trainer", {ADOPT_ID: pod_id})

    def refused(item: Manifest | None) -> bool:
        return f"{pod_id} is named 'by-hand'" in condition(item, "CreateOutcomeUnknown").get("message", "")

    waiting = await workspace.becomes("GpuPod", "trainer", refused)
    assert "id" not in waiting["status"]
    await workspace.kube.annotate("GpuPod", "trainer", {ADOPT_ID: made})
    assert (await workspace.becomes("GpuPod", "trainer"))["status"]["id"] == made
    await workspace.kube.delete("GpuPod", "trainer")
    await workspace.is_gone("GpuPod", "trainer")
    assert (await workspace.organization.vm(pod_id))["status"] == "running"


async def test_what_was_made_for_another_is_refused_though_that_one_does_not_know_its_id_yet(
    workspace: Workspace,
) -> None:
    """Only the name in the cloud tells whose it is."""
    organization = workspace.organization
    unknown, made = await _made_unheard(workspace, "owner")
    await workspace.apply(_adopting(gpu_pod("thief"), made))
    refused = await workspace.becomes("GpuPod", "thief", _refused)
    assert f"belongs to GpuPod/{workspace.namespace}/owner" in _message(refused)
    await workspace.kube.annotate("GpuPod", "owner", {ADOPT_ID: made})
    owner = await workspace.becomes("GpuPod", "owner")
    assert owner["status"]["id"] == made
    assert owner["status"]["createToken"] == json.loads(unknown["metadata"]["annotations"][INTENT])["token"]
    await workspace.kube.delete("GpuPod", "thief")
    await workspace.is_gone("GpuPod", "thief")
    assert (await organization.vm(made))["status"] == "running"
    assert await changes(workspace) == [CREATE_POD]


async def test_of_two_objects_that_ask_at_once_one_gets_it(workspace: Workspace, pod_id: str) -> None:
    await workspace.becomes("CloudAccount", "default")
    slow: Json = {"delaySeconds": 0.5}  # so that both look before either records
    await workspace.cloud.control.fault(READ_VM, slow, count=2, organizationId=workspace.organization.id)
    for name in ("first", "second"):
        await workspace.apply(_adopting(gpu_pod(name, count=2, volumeGb=80), pod_id))

    async def outcomes() -> list[str]:
        pods = await workspace.kube.list("GpuPod")
        return sorted("adopted" if ready(pod) else stalled(pod) for pod in pods)

    await eventually(outcomes, lambda seen: seen == ["AdoptionRefused", "adopted"], what="one adopts, one is refused")
    ids = [pod.get("status", {}).get("id") for pod in await workspace.kube.list("GpuPod")]
    assert sorted(ids, key=str) == sorted([None, pod_id], key=str)


async def test_a_terminated_or_unknown_resource_is_refused_and_nothing_is_made_instead(
    workspace: Workspace, pod_id: str
) -> None:
    await workspace.organization.call("POST", f"/v1/vms/{pod_id}/terminate")
    await workspace.apply(_adopting(gpu_pod("late", count=2, volumeGb=80), pod_id))
    await workspace.apply(_adopting(gpu_pod("mistyped"), "pod_does_not_exist"))
    assert "terminated" in _message(await workspace.becomes("GpuPod", "late", _refused))
    assert "does not find pod_does_not_exist" in _message(await workspace.becomes("GpuPod", "mistyped", _refused))
    assert await count(workspace, CREATE_POD) == 1
