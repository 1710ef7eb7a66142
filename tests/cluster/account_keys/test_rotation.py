"""A key that changes is picked up by itself; one that is refused stops the asking, and nothing else."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from tests.cluster.cloud_side import as_owner, new_key, revoke, webhooks
from tests.support.eventually import eventually
from tests.support.manifests import api_key_secret, condition, gpu_pod, ready, stalled

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.operator import Operator
    from tests.support.workspace import Workspace

ROLL = "POST /v1/orgs/{orgId}/webhooks/{id}/regenerate-secret"


def _unauthorized(item: Manifest | None) -> bool:
    return stalled(item) == "AccountUnauthorized"


async def _passes(operator: Operator, more: int) -> None:
    """Waits for so many further passes over accounts."""
    before = await operator.metric("gpurelay_reconciles_total", kind="CloudAccount")

    async def since() -> float:
        return await operator.metric("gpurelay_reconciles_total", kind="CloudAccount") - before

    await eventually(since, lambda made: made >= more, what=f"{more} passes over accounts")


async def test_a_rotated_key_is_used_without_a_restart_and_before_the_old_one_is_missed(
    brisk_workspace: Workspace, brisk: Operator
) -> None:
    kube, organization, control = brisk_workspace.kube, brisk_workspace.organization, brisk_workspace.cloud.control
    await brisk_workspace.apply(gpu_pod())
    await brisk_workspace.becomes("GpuPod", "trainer")
    further = await new_key(organization)
    await kube.apply(api_key_secret(further))
    await _passes(brisk, 4)
    before = await control.requests()
    await revoke(organization, organization.api_key)
    await kube.patch("GpuPod", "trainer", {"spec": {"public": True}})
    await brisk_workspace.becomes("GpuPod", "trainer", lambda item: (item or {})["status"].get("public") is True)
    pod = await brisk_workspace.becomes("GpuPod", "trainer")
    assert stalled(pod) == ""
    # Logged as nobody's, since the key is not valid.
    refused = [one["path"] for one in await control.requests(after=before[-1]["seq"]) if one["status"] == 401]
    assert [path for path in refused if organization.id in path or pod["status"]["id"] in path] == []
    log = brisk.log.read_text()
    assert organization.api_key not in log
    assert further not in log


async def test_a_revoked_key_is_told_keeps_ready_and_is_not_asked_with_again(
    brisk_workspace: Workspace, brisk: Operator
) -> None:
    kube, organization, control = brisk_workspace.kube, brisk_workspace.organization, brisk_workspace.cloud.control
    await brisk_workspace.apply(gpu_pod())
    running = await brisk_workspace.becomes("GpuPod", "trainer")
    await revoke(organization, organization.api_key)
    told = await brisk_workspace.becomes("GpuPod", "trainer", _unauthorized)
    assert condition(told, "Ready")["status"] == "True"
    account = await brisk_workspace.becomes("CloudAccount", "default", _unauthorized)
    assert condition(account, "Ready")["status"] == "False"

    log = await control.requests()
    await _passes(brisk, 5)
    assert [one for one in await control.requests(after=log[-1]["seq"]) if one["status"] == 401] == []
    kept = await kube.get("GpuPod", "trainer")
    assert ready(kept)
    assert kept["status"]["id"] == running["status"]["id"]
    assert (await as_owner(organization).vm(running["status"]["id"]))["status"] == "running"

    await kube.apply(api_key_secret(await new_key(organization)))
    await brisk_workspace.becomes("CloudAccount", "default")
    healed = await brisk_workspace.becomes("GpuPod", "trainer", lambda item: ready(item) and not stalled(item))
    assert healed["status"]["id"] == running["status"]["id"]


async def test_a_pod_deleted_under_a_revoked_key_waits_and_ends_with_the_new_one(brisk_workspace: Workspace) -> None:
    kube, organization = brisk_workspace.kube, brisk_workspace.organization
    await brisk_workspace.apply(gpu_pod())
    pod = await brisk_workspace.becomes("GpuPod", "trainer")
    await revoke(organization, organization.api_key)
    await kube.delete("GpuPod", "trainer")

    def told(item: Manifest | None) -> bool:
        return _unauthorized(item) and "deletion waits" in condition(item, "Stalled")["message"]

    await brisk_workspace.becomes("GpuPod", "trainer", told)
    assert (await as_owner(organization).vm(pod["status"]["id"]))["status"] == "running"
    await kube.apply(api_key_secret(await new_key(organization)))
    await brisk_workspace.is_gone("GpuPod", "trainer")
    assert (await as_owner(organization).vm(pod["status"]["id"]))["status"] == "terminated"


async def test_a_webhook_secret_rolled_by_somebody_else_is_rolled_once_more_and_known(
    brisk_workspace: Workspace,
) -> None:
    kube, organization = brisk_workspace.kube, brisk_workspace.organization
    await brisk_workspace.becomes("CloudAccount", "default")
    (hook,) = await webhooks(organization)
    path = f"/v1/orgs/{organization.id}/webhooks/{hook['id']}/regenerate-secret"
    foreign = (await as_owner(organization).call("POST", path))["secret"]

    async def kept() -> str:
        secret = await kube.get("Secret", "default-webhook")
        return base64.b64decode(secret["data"]["webhook-secret"]).decode()

    async def known() -> bool:
        (shown,) = await webhooks(organization)
        return (await kept()).startswith(shown["secretPrefix"]) and not foreign.startswith(shown["secretPrefix"])

    await eventually(known, what="the operator knows the secret that the cloud signs with")
    assert (await webhooks(organization))[0]["id"] == hook["id"]
    rolled = [one for one in await brisk_workspace.cloud.control.requests(organization=organization)
              if one["operation"] == ROLL]  # fmt: skip
    assert len(rolled) == 2
    await brisk_workspace.apply(gpu_pod())
    await brisk_workspace.becomes("GpuPod", "trainer")

    async def delivered() -> set[int | None]:
        attempts = await brisk_workspace.cloud.control.deliveries(organization=organization)
        return {one["statusCode"] for one in attempts if one["webhookId"] == hook["id"]}

    await eventually(delivered, lambda statuses: statuses - {None} == {204}, what="every answer is an acceptance")
