"""A ClusterCloudAccount serves the namespaces that its selector admits, and no other."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from relay_operator.engine.intent import cloud_name
from tests.cluster.batch_model import FailingModel
from tests.cluster.batch_side import CANCEL_BATCH, CREATE_BATCH, KIND, NAME, batch, put_prompts, record
from tests.cluster.cloud_log import changes, count, left
from tests.conftest import OPERATOR_NAMESPACE
from tests.support.manifests import condition, gpu_cluster, gpu_pod, ready, stalled, tells

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace


async def admit(workspace: Workspace, account: str, team: str) -> None:
    """The account admits namespaces of this team; the workspace's is of the team `ml`."""
    await workspace.kube.patch("Namespace", workspace.namespace, {"metadata": {"labels": {"team": "ml"}}})
    selector = {"spec": {"allowedNamespaces": {"matchLabels": {"team": team}}}}
    await workspace.kube.patch("ClusterCloudAccount", account, selector)


def _not_admitted(item: Manifest | None) -> bool:
    return stalled(item) == "AccountNotAllowed"


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


@pytest.mark.parametrize("made", [gpu_pod("one"), gpu_cluster("one", replicas=1)], ids=["pod", "cluster"])
async def test_what_was_made_before_the_namespace_was_expelled_is_ended_when_its_object_is_deleted(
    brisk_workspace: Workspace, shared_account: str, made: Manifest
) -> None:
    workspace, kind = brisk_workspace, made["kind"]
    await admit(workspace, shared_account, "ml")
    reference = {"kind": "ClusterCloudAccount", "name": shared_account}
    await workspace.apply({**made, "spec": {**made["spec"], "accountRef": reference}})
    running = await workspace.becomes(kind, "one")
    await admit(workspace, shared_account, "another")
    await workspace.becomes(kind, "one", _not_admitted)
    assert await left(workspace) == [running["status"]["id"]]
    await workspace.kube.delete(kind, "one")
    await workspace.is_gone(kind, "one")
    assert await left(workspace) == []


async def test_a_namespace_that_is_not_admitted_ends_nothing_of_others_with_a_forged_status(
    brisk_workspace: Workspace, shared_account: str
) -> None:
    workspace, kube = brisk_workspace, brisk_workspace.kube
    await admit(workspace, shared_account, "another")
    victim = await workspace.organization.call("POST", "/v1/pods", {"image": "nginx", "name": "of-another"})
    await workspace.apply(gpu_pod())  # with the namespace's own account, to see what the operator writes
    own = await workspace.becomes("GpuPod", "trainer")
    reference = {"kind": "ClusterCloudAccount", "name": shared_account}
    await workspace.apply(gpu_pod("thief", accountRef=reference))
    thief = await workspace.becomes("GpuPod", "thief", _not_admitted)
    uid, installation = thief["metadata"]["uid"], own["status"]["identity"]["installation"]
    forged = own["status"] | {
        "id": victim["id"],
        "cloudName": cloud_name(workspace.namespace, "thief", uid, installation, 1),
        "identity": own["status"]["identity"] | {"name": "thief", "uid": uid},
        "account": reference,
    }
    await kube.patch("GpuPod", "thief", {"metadata": {"finalizers": ["gpurelay.dev/cloud-resource"]}})
    await kube.patch("GpuPod", "thief", {"status": forged}, subresource="status")
    before = await changes(workspace)
    await kube.delete("GpuPod", "thief")
    await workspace.becomes("GpuPod", "thief", lambda item: stalled(item) == "IdentityMismatch")
    assert await changes(workspace) == before
    assert (await workspace.organization.vm(victim["id"]))["status"] == "running"
    await kube.annotate("GpuPod", "thief", {"gpurelay.dev/abandon": "true"})
    await workspace.is_gone("GpuPod", "thief")


async def test_a_batch_of_an_expelled_namespace_says_how_to_end_it(
    brisk_workspace: Workspace, shared_account: str
) -> None:
    workspace, kube = brisk_workspace, brisk_workspace.kube
    await admit(workspace, shared_account, "ml")
    gate = asyncio.Event()
    async with FailingModel(gate=gate) as model:
        await model.serve(workspace)
        await put_prompts(workspace, [record("one")])
        reference = {"kind": "ClusterCloudAccount", "name": shared_account}
        await workspace.apply(batch(model=model.name, accountRef=reference))
        await workspace.becomes(KIND, NAME, tells("Running"))
        await admit(workspace, shared_account, "another")
        await workspace.becomes(KIND, NAME, _not_admitted)
        await kube.delete(KIND, NAME)
        told = condition(await workspace.becomes(KIND, NAME, _not_admitted), "Stalled")["message"]
        assert "allowedNamespaces" in told
        assert "abandon" in told
        assert await count(workspace, CANCEL_BATCH) == 0
        await admit(workspace, shared_account, "ml")
        gate.set()
        await workspace.is_gone(KIND, NAME)
    assert await count(workspace, CANCEL_BATCH) > 0
