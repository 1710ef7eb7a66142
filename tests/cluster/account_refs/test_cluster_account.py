"""A ClusterCloudAccount serves the namespaces that its selector admits, and no other."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest_asyncio

from tests.conftest import OPERATOR_NAMESPACE
from tests.support.manifests import SECRET_KEY, api_key_secret, condition, gpu_pod, ready, relay_object, stalled

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.workspace import Workspace


@pytest_asyncio.fixture
async def shared_account(brisk_workspace: Workspace) -> AsyncIterator[str]:
    """The name of a ClusterCloudAccount that admits namespaces with the label `team=ml`."""
    name = f"shared-{secrets.token_hex(3)}"
    secret = api_key_secret(brisk_workspace.organization.api_key, name)
    secret["metadata"]["namespace"] = OPERATOR_NAMESPACE
    await brisk_workspace.kube.apply(secret)
    await brisk_workspace.kube.apply(
        relay_object(
            "ClusterCloudAccount",
            name,
            baseUrl=brisk_workspace.cloud.management_url,
            apiKeySecretRef={"name": name, "key": SECRET_KEY, "namespace": OPERATOR_NAMESPACE},
            allowedNamespaces={"matchLabels": {"team": "ml"}},
        )
    )
    yield name
    await brisk_workspace.kube.delete_all("GpuPod")
    await brisk_workspace.kube.delete("ClusterCloudAccount", name)
    await brisk_workspace.is_gone("ClusterCloudAccount", name)
    await brisk_workspace.kube.delete("Secret", name, OPERATOR_NAMESPACE)


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
