"""Nothing is created before the account's webhooks would tell of it; what cannot be subscribed holds nothing back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.cloud_log import CREATE_POD
from tests.support.manifests import cloud_account, condition, gpu_pod

if TYPE_CHECKING:
    from tests.support.localcloud import Json
    from tests.support.workspace import Workspace

SUBSCRIBE = "POST /v1/orgs/{orgId}/webhooks/create"
LIST = "GET /v1/orgs/{orgId}/webhooks"


async def _second_account_and_pod(workspace: Workspace) -> None:
    """Both at once, as people apply a folder."""
    cloud = workspace.cloud
    await workspace.apply(gpu_pod(accountRef={"kind": "CloudAccount", "name": "second"}))
    await workspace.apply(cloud_account(cloud.management_url, cloud.inference_url, "second"))


async def test_the_first_create_of_an_account_is_sent_after_its_subscription_is_made(
    brisk_workspace: Workspace,
) -> None:
    await brisk_workspace.becomes("CloudAccount", "default")
    control, organization = brisk_workspace.cloud.control, brisk_workspace.organization
    shown = {"delaySeconds": 10}  # seconds in which a busy machine shows that the pod waits
    await control.fault(SUBSCRIBE, shown, count=1, organizationId=organization.id)
    await _second_account_and_pod(brisk_workspace)

    def waits(item: Json | None) -> bool:
        return (
            condition(item, "Ready").get("reason") == "WaitingForAccount"
            and "subscribed" in (condition(item, "Ready")["message"])
        )

    await brisk_workspace.becomes("GpuPod", "trainer", waits)
    await brisk_workspace.becomes("GpuPod", "trainer")
    log = await control.requests(organization=organization)
    order = [one["operation"] for one in log if one["operation"] in {SUBSCRIBE, CREATE_POD}]
    assert order == [SUBSCRIBE, SUBSCRIBE, CREATE_POD]


async def test_a_subscription_that_is_refused_is_told_and_holds_nothing_back(brisk_workspace: Workspace) -> None:
    await brisk_workspace.becomes("CloudAccount", "default")
    control, organization = brisk_workspace.cloud.control, brisk_workspace.organization
    await control.fault(LIST, {"status": 403}, organizationId=organization.id)
    await _second_account_and_pod(brisk_workspace)
    await brisk_workspace.becomes("GpuPod", "trainer")
    account = await brisk_workspace.becomes("CloudAccount", "second")
    assert condition(account, "WebhookReady")["status"] == "False"
    assert condition(account, "WebhookReady")["reason"] == "WebhookRefused"
