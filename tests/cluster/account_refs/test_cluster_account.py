"""A ClusterCloudAccount serves the namespaces that its selector admits, and no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.batch_side import CREATE_BATCH, KIND, NAME, batch
from tests.cluster.cloud_log import count
from tests.conftest import OPERATOR_NAMESPACE
from tests.support.manifests import condition, gpu_pod, ready, stalled

if TYPE_CHECKING:
    from tests.support.workspace import Workspace


async def test_an_admitted_namespace_uses_it_and_its_webhooks(brisk_workspace: Workspace, shared_account: str) -> None:
    kube = brisk_workspace.kube
    await kube.patch("Namespace", brisk_workspace.namespace, {"metadata": {"labels": {"team": "ml"}}})
    await brisk_workspace.apply(gpu_pod(accountRef={"kind": "ClusterCloudAccount", "name": shared_account}))
    pod = await brisk_workspace.becomes("GpuPod", "trainer")
    assert (await brisk_workspace.organization.vm(pod["status"]["id"]))["status"] == "running"
    account = await brisk_workspace.becomes("ClusterCloudAccount", shared_account)
    assert account["status"]["webhook"]["url"].endswith(f"/webhooks/_cluster/{shared_account}")
    kept = await kube.get("Secret", account["status"]["webhook"]["secretName"], OPERATOR_NAMESPACE)
    assert kept["metadata"]["ownerReferences"][0]["kind"] == "ClusterCloudAccount"


async def test_a_namespace_that_is_not_admitted_is_refused_and_nothing_is_asked(
    brisk_workspace: Workspace, shared_account: str
) -> None:
    await brisk_workspace.becomes("ClusterCloudAccount", shared_account)
    await brisk_workspace.apply(gpu_pod(accountRef={"kind": "ClusterCloudAccount", "name": shared_account}))
    told = await brisk_workspace.becomes("GpuPod", "trainer", lambda item: stalled(item) == "AccountNotAllowed")
    assert "allowedNamespaces" in condition(told, "Stalled")["message"]
    log = await brisk_workspace.cloud.control.requests(organization=brisk_workspace.organization)
    assert "POST /v1/pods" not in {one["operation"] for one in log}


async def test_an_account_changed_to_admit_a_namespace_serves_what_waits_there(
    brisk_workspace: Workspace, shared_account: str
) -> None:
    await brisk_workspace.apply(gpu_pod(accountRef={"kind": "ClusterCloudAccount", "name": shared_account}))
    await brisk_workspace.becomes("GpuPod", "trainer", lambda item: stalled(item) == "AccountNotAllowed")
    named = {"matchLabels": {"kubernetes.io/metadata.name": brisk_workspace.namespace, "team": None}}
    await brisk_workspace.kube.patch("ClusterCloudAccount", shared_account, {"spec": {"allowedNamespaces": named}})
    await brisk_workspace.becomes("GpuPod", "trainer", lambda item: ready(item) and not stalled(item))


async def test_a_secret_outside_the_operators_namespace_is_not_read(
    brisk_workspace: Workspace, shared_account: str
) -> None:
    theirs = {"apiKeySecretRef": {"namespace": brisk_workspace.namespace, "name": "relay-api-key"}}
    await brisk_workspace.kube.patch("ClusterCloudAccount", shared_account, {"spec": theirs})
    told = await brisk_workspace.becomes(
        "ClusterCloudAccount", shared_account, lambda item: stalled(item) == "AccountNotAllowed"
    )
    assert OPERATOR_NAMESPACE in condition(told, "Stalled")["message"]


async def test_a_file_of_the_cloud_could_be_anybodys_and_is_not_read(
    brisk_workspace: Workspace, shared_account: str
) -> None:
    kube = brisk_workspace.kube
    await kube.patch("Namespace", brisk_workspace.namespace, {"metadata": {"labels": {"team": "ml"}}})
    reference = {"kind": "ClusterCloudAccount", "name": shared_account}
    await brisk_workspace.apply(batch(accountRef=reference, input={"fileId": "file_of_another"}))
    told = await brisk_workspace.becomes(KIND, NAME, lambda item: stalled(item) == "AdoptionRefused")
    assert "allowAdoption" in condition(told, "Stalled")["message"]
    assert await count(brisk_workspace, "GET /v1/files/{id}/content", "GET /v1/files/{id}", CREATE_BATCH) == 0
    await kube.delete(KIND, NAME)
    await brisk_workspace.is_gone(KIND, NAME)
