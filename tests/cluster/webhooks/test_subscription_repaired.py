"""A subscription that somebody took away, paused or pointed elsewhere is put right, and delivers again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.cloud_side import webhooks
from tests.support.eventually import eventually
from tests.support.manifests import condition, gpu_pod, ready

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.localcloud import Json
    from tests.support.workspace import Workspace


async def _subscribed(workspace: Workspace) -> Json:
    """The one subscription, once the account says that it has it."""

    def has_it(item: Manifest | None) -> bool:
        return ready(item) and condition(item, "WebhookReady").get("status") == "True"

    await workspace.becomes("CloudAccount", "default", has_it)
    (hook,) = await webhooks(workspace.organization)
    return hook


async def _delivers_again(workspace: Workspace) -> None:
    """Waits until there is one good subscription again, then for a delivery that the operator took."""

    async def good() -> Json | None:
        hooks = await webhooks(workspace.organization)
        account = await workspace.kube.get("CloudAccount", "default")
        fits = len(hooks) == 1 and hooks[0]["enabled"] and hooks[0]["url"].endswith(f"/{workspace.namespace}/default")
        return hooks[0] if fits and account["status"]["webhook"]["id"] == hooks[0]["id"] else None

    hook = await eventually(good, what="one good subscription")
    assert hook is not None
    await workspace.apply(gpu_pod())
    await workspace.becomes("GpuPod", "trainer")

    async def taken() -> bool:
        attempts = await workspace.cloud.control.deliveries()
        return any(one["webhookId"] == hook["id"] and one["statusCode"] == 204 for one in attempts)

    await eventually(taken, what="a delivery that the operator took")


async def test_a_deleted_subscription_is_made_again(brisk_workspace: Workspace) -> None:
    hook = await _subscribed(brisk_workspace)
    organization = brisk_workspace.organization
    await organization.call("DELETE", f"/v1/orgs/{organization.id}/webhooks/{hook['id']}")
    await _delivers_again(brisk_workspace)


async def test_a_paused_subscription_is_resumed(brisk_workspace: Workspace) -> None:
    hook = await _subscribed(brisk_workspace)
    organization = brisk_workspace.organization
    await organization.call("POST", f"/v1/orgs/{organization.id}/webhooks/{hook['id']}/toggle", {"enabled": False})
    await _delivers_again(brisk_workspace)
    assert (await webhooks(organization))[0]["id"] == hook["id"]


@pytest.mark.parametrize(
    "change", [{"url": "http://127.0.0.1:9/elsewhere"}, {"events": ["cluster.running"]}], ids=["url", "events"]
)
async def test_a_subscription_replaced_by_one_with_another_url_or_fewer_events_is_put_right(
    brisk_workspace: Workspace, change: Json
) -> None:
    hook = await _subscribed(brisk_workspace)
    organization = brisk_workspace.organization
    root = f"/v1/orgs/{organization.id}/webhooks"
    await organization.call("POST", f"{root}/create", {"name": hook["name"], "url": hook["url"]} | change)
    await organization.call("DELETE", f"{root}/{hook['id']}")
    await _delivers_again(brisk_workspace)


async def test_subscriptions_of_others_are_left_alone(brisk_workspace: Workspace) -> None:
    await _subscribed(brisk_workspace)
    organization = brisk_workspace.organization
    body = {"name": "ci", "url": "http://127.0.0.1:9/ci"}
    foreign = await organization.call("POST", f"/v1/orgs/{organization.id}/webhooks/create", body)
    await brisk_workspace.kube.annotate("CloudAccount", "default", {"gpurelay.dev/reconcile-at": "asked"})
    await brisk_workspace.becomes(
        "CloudAccount", "default", lambda item: (item or {})["status"].get("reconcileAt") == "asked"
    )
    assert foreign["id"] in {one["id"] for one in await webhooks(organization)}
    await brisk_workspace.kube.delete("CloudAccount", "default")
    await brisk_workspace.is_gone("CloudAccount", "default")
    assert [one["id"] for one in await webhooks(organization)] == [foreign["id"]]
