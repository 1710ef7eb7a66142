"""A ClusterCloudAccount serves the kinds that it allows; what there is of another kind is only ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio

from tests.cluster.batch_side import CREATE_BATCH, KIND, NAME, UPLOAD, batch
from tests.cluster.cloud_log import count
from tests.support.manifests import condition, gpu_pod, ready, relay_object, stalled, up_to_date

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace

ADA = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
MAKE_KEY = "POST /v1/orgs/{orgId}/api-keys/create"
REGISTER = "POST /v1/orgs/{orgId}/ssh-keys/create"
Reference = dict[str, str]


@pytest_asyncio.fixture
async def shared(brisk_workspace: Workspace, shared_account: str) -> Reference:
    """The `accountRef` of a ClusterCloudAccount that admits the namespace."""
    await brisk_workspace.kube.patch("Namespace", brisk_workspace.namespace, {"metadata": {"labels": {"team": "ml"}}})
    return {"kind": "ClusterCloudAccount", "name": shared_account}


def _not_allowed(item: Manifest | None) -> bool:
    return stalled(item) == "AccountNotAllowed" and up_to_date(item)


async def test_a_key_that_would_open_what_others_run_is_not_registered_unless_the_account_says_so(
    brisk_workspace: Workspace, shared: Reference
) -> None:
    await brisk_workspace.apply(relay_object("SshKey", "ada", accountRef=shared, publicKey=ADA))
    await brisk_workspace.apply(gpu_pod(accountRef=shared))
    told = condition(await brisk_workspace.becomes("SshKey", "ada", _not_allowed), "Stalled")["message"]
    assert told.startswith(f"the ClusterCloudAccount/{shared['name']} may not be used for objects of the kind SshKey: ")
    assert "spec.allowedKinds" in told
    await brisk_workspace.becomes("GpuPod", "trainer")
    assert await count(brisk_workspace, REGISTER) == 0
    kinds = {"spec": {"allowedKinds": ["GpuPod", "SshKey"]}}
    await brisk_workspace.kube.patch("ClusterCloudAccount", shared["name"], kinds)
    await brisk_workspace.becomes("SshKey", "ada", lambda item: ready(item) and not stalled(item))
    assert await count(brisk_workspace, REGISTER) == 1
    await brisk_workspace.kube.delete("SshKey", "ada")
    await brisk_workspace.is_gone("SshKey", "ada")


async def test_a_key_through_a_shared_account_opens_what_that_allows_and_nothing_else(
    brisk_workspace: Workspace, shared: Reference
) -> None:
    key = {"accountRef": shared, "scopes": ["inference", "vms:read"], "secretName": "ci-key"}
    await brisk_workspace.apply(relay_object("ApiKey", "ci", **key))
    told = condition(await brisk_workspace.becomes("ApiKey", "ci", _not_allowed), "Stalled")["message"]
    assert "of the kind ApiKey" in told
    allowed: dict[str, list[str]] = {"allowedKinds": ["ApiKey"], "allowedScopes": ["inference"]}
    await brisk_workspace.kube.patch("ClusterCloudAccount", shared["name"], {"spec": allowed})

    def names_the_scope(item: Manifest | None) -> bool:
        return _not_allowed(item) and "a key with vms:read: " in condition(item, "Stalled")["message"]

    await brisk_workspace.becomes("ApiKey", "ci", names_the_scope)
    assert await count(brisk_workspace, MAKE_KEY) == 0
    more = {"spec": {"allowedScopes": ["inference", "vms:read"]}}
    await brisk_workspace.kube.patch("ClusterCloudAccount", shared["name"], more)
    await brisk_workspace.becomes("ApiKey", "ci")
    await brisk_workspace.kube.patch("ClusterCloudAccount", shared["name"], {"spec": {"allowedScopes": None}})
    await brisk_workspace.becomes("ApiKey", "ci", _not_allowed)
    await brisk_workspace.kube.delete("ApiKey", "ci")
    await brisk_workspace.is_gone("ApiKey", "ci")


async def test_what_exists_of_a_kind_that_is_not_allowed_any_more_is_only_ended(
    brisk_workspace: Workspace, shared: Reference
) -> None:
    kube, organization = brisk_workspace.kube, brisk_workspace.organization
    await brisk_workspace.apply(gpu_pod(accountRef=shared))
    cloud_id = (await brisk_workspace.becomes("GpuPod", "trainer"))["status"]["id"]
    await kube.patch("ClusterCloudAccount", shared["name"], {"spec": {"allowedKinds": ["SshKey"]}})
    await brisk_workspace.becomes("GpuPod", "trainer", _not_allowed)
    await brisk_workspace.apply(gpu_pod(accountRef=shared, powerState="Stopped"))
    await brisk_workspace.apply(batch(accountRef=shared))
    await brisk_workspace.becomes("GpuPod", "trainer", _not_allowed)
    await brisk_workspace.becomes(KIND, NAME, _not_allowed)
    assert (await organization.vm(cloud_id))["status"] == "running"
    for kind, name in ((KIND, NAME), ("GpuPod", "trainer")):
        await kube.delete(kind, name)
        await brisk_workspace.is_gone(kind, name)
    assert (await organization.vm(cloud_id))["status"] == "terminated"
    assert await count(brisk_workspace, UPLOAD, CREATE_BATCH) == 0
