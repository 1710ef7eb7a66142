"""Accounts that lack something, or name what is not allowed: told, waited for, and healed without a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.cloud_side import webhooks
from tests.support.kstatus import kstatus
from tests.support.manifests import SECRET, SECRET_KEY, api_key_secret, cloud_account, condition, gpu_pod, stalled

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace


def _waiting(item: Manifest | None) -> bool:
    return condition(item, "Reconciling").get("reason") == "WaitingForAccount"


def _waiting_for_the_key(item: Manifest | None) -> bool:
    return _waiting(item) and "later-key" in condition(item, "Ready")["message"]


def _secret_missing(item: Manifest | None) -> bool:
    return condition(item, "Reconciling").get("reason") == "SecretMissing"


async def test_a_pod_waits_for_an_account_that_comes_later(brisk_workspace: Workspace) -> None:
    await brisk_workspace.apply(gpu_pod(accountRef={"kind": "CloudAccount", "name": "later"}))
    told = await brisk_workspace.becomes("GpuPod", "trainer", _waiting)
    assert "later" in condition(told, "Reconciling")["message"]
    cloud = brisk_workspace.cloud
    await brisk_workspace.apply(cloud_account(cloud.management_url, cloud.inference_url, "later"))
    await brisk_workspace.becomes("GpuPod", "trainer")


async def test_a_secret_that_comes_later_is_found_by_itself(brisk_workspace: Workspace) -> None:
    cloud = brisk_workspace.cloud
    account = cloud_account(cloud.management_url, cloud.inference_url, "later")
    account["spec"]["apiKeySecretRef"] = {"name": "later-key", "key": SECRET_KEY}
    await brisk_workspace.apply(account)
    await brisk_workspace.apply(gpu_pod(accountRef={"kind": "CloudAccount", "name": "later"}))
    told = await brisk_workspace.becomes("CloudAccount", "later", _secret_missing)
    assert "later-key" in condition(told, "Ready")["message"]
    assert kstatus(told) == "InProgress", "GitOps tools wait for it"
    await brisk_workspace.becomes("GpuPod", "trainer", _waiting_for_the_key)
    await brisk_workspace.apply(api_key_secret(brisk_workspace.organization.api_key, "later-key"))
    await brisk_workspace.becomes("CloudAccount", "later")
    await brisk_workspace.becomes("GpuPod", "trainer")


async def test_a_secret_without_the_key_says_which_and_heals_when_it_is_put_in(brisk_workspace: Workspace) -> None:
    kube = brisk_workspace.kube
    await brisk_workspace.apply(gpu_pod())
    pod = await brisk_workspace.becomes("GpuPod", "trainer")
    await kube.patch("Secret", SECRET, {"data": {SECRET_KEY: None}})
    told = await brisk_workspace.becomes("CloudAccount", "default", _secret_missing)
    assert SECRET_KEY in condition(told, "Ready")["message"]
    blind = await brisk_workspace.becomes("GpuPod", "trainer", _secret_missing)
    assert condition(blind, "Ready")["status"] == "True"
    await kube.apply(api_key_secret(brisk_workspace.organization.api_key))
    await brisk_workspace.becomes("CloudAccount", "default")
    healed = await brisk_workspace.becomes(
        "GpuPod", "trainer", lambda item: item is not None and kstatus(item) == "Current"
    )
    assert healed["status"]["id"] == pod["status"]["id"]


async def test_a_wrong_key_is_refused_once_and_the_right_one_heals(brisk_workspace: Workspace) -> None:
    kube = brisk_workspace.kube
    await kube.apply(api_key_secret("or_nobody_ever_had_this_key"))
    await brisk_workspace.apply(gpu_pod())
    told = await brisk_workspace.becomes("CloudAccount", "default", lambda item: stalled(item) == "AccountUnauthorized")
    assert "or_nobody" not in str(told)
    await kube.apply(api_key_secret(brisk_workspace.organization.api_key))
    await brisk_workspace.becomes("GpuPod", "trainer")


async def test_a_base_url_outside_the_allow_list_gets_no_request_and_says_who_can_allow_it(
    brisk_workspace: Workspace,
) -> None:
    kube, organization = brisk_workspace.kube, brisk_workspace.organization
    await brisk_workspace.becomes("CloudAccount", "default")
    await brisk_workspace.apply(gpu_pod())
    pod = await brisk_workspace.becomes("GpuPod", "trainer")
    await kube.patch("CloudAccount", "default", {"spec": {"baseUrl": "http://cloud.example.com:1"}})
    told = await brisk_workspace.becomes("CloudAccount", "default", lambda item: stalled(item) == "AccountNotAllowed")
    assert "RELAY_ALLOWED_BASE_URLS" in condition(told, "Stalled")["message"]
    assert condition(told, "Ready")["status"] == "False"
    blind = await brisk_workspace.becomes("GpuPod", "trainer", lambda item: stalled(item) == "AccountNotAllowed")
    assert condition(blind, "Ready")["status"] == "True"
    assert (await organization.vm(pod["status"]["id"]))["status"] == "running"
    assert len(await webhooks(organization)) == 1
    await kube.patch("CloudAccount", "default", {"spec": {"baseUrl": brisk_workspace.cloud.management_url}})
    await brisk_workspace.becomes("GpuPod", "trainer", lambda item: not stalled(item))
