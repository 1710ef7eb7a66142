"""The webhook subscription: one, with a known secret, whatever happened in between."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest_asyncio

from relay_operator.api.meta import ObjectKey
from relay_operator.engine.account import AccountReady
from relay_operator.http_server import http_server
from relay_operator.settings import ListenAddress
from relay_operator.webhooks.event_router import EventRouter
from relay_operator.webhooks.receiver import Receiver
from tests.support.eventually import eventually
from tests.support.manifests import cloud_account, condition, gpu_pod

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.cluster.accounts.conftest import Bench
    from tests.support.kube import Manifest
    from tests.support.localcloud import LocalCloud

HOOKS = "/v1/orgs/{orgId}/webhooks"


async def _secret(bench: Bench) -> str:
    kept = await bench.admin.get("Secret", "default-webhook")
    return base64.b64decode(kept["data"]["webhook-secret"]).decode()


async def test_a_subscription_is_made_once_and_its_secret_is_kept_in_a_secret_of_the_account(bench: Bench) -> None:
    account = await bench.run()
    (hook,) = await bench.webhooks()
    assert hook["name"] == f"relay-operator/{account['metadata']['uid']}"
    assert hook["url"] == f"http://127.0.0.1:1/webhooks/{bench.admin.namespace}/default"
    kept = await bench.admin.get("Secret", "default-webhook")
    assert kept["metadata"]["ownerReferences"][0]["uid"] == account["metadata"]["uid"]
    assert account["status"]["webhook"]["id"] == hook["id"]
    assert condition(account, "WebhookReady")["status"] == "True"
    assert bench.accounts.webhook_secrets.of(bench.key) == (await _secret(bench),)
    await bench.later(400)
    bench.restart()
    await bench.run()
    assert await bench.webhooks() == [hook]


async def test_a_subscription_whose_create_was_never_recorded_is_found_and_its_secret_rolled(bench: Bench) -> None:
    await bench.cloud.control.fault(
        f"POST {HOOKS}/create", {"drop": "after"}, count=1, organizationId=bench.organization.id
    )
    await bench.run()
    (made,) = await bench.webhooks()
    assert bench.accounts.webhook_secrets.of(bench.key) is None
    bench.restart()
    await bench.run()
    (hook,) = await bench.webhooks()
    assert hook["id"] == made["id"]
    assert hook["secretPrefix"] != made["secretPrefix"]
    assert (await _secret(bench)).startswith(hook["secretPrefix"])


async def test_a_secret_that_was_rolled_without_an_answer_is_rolled_again(bench: Bench) -> None:
    await bench.run()
    await bench.admin.delete("Secret", "default-webhook")
    roll = f"POST {HOOKS}/{{id}}/regenerate-secret"
    await bench.cloud.control.fault(roll, {"drop": "after"}, count=1, organizationId=bench.organization.id)
    await bench.later(400)
    await bench.later(400)
    (hook,) = await bench.webhooks()
    assert (await _secret(bench)).startswith(hook["secretPrefix"])


async def test_a_lost_secret_a_paused_and_a_duplicate_subscription_are_repaired(bench: Bench) -> None:
    account = await bench.run()
    (hook,) = await bench.webhooks()
    root = f"/v1/orgs/{bench.organization.id}/webhooks"
    again = {"name": hook["name"], "url": hook["url"]}
    await bench.organization.call("POST", f"{root}/create", again)
    foreign = await bench.organization.call("POST", f"{root}/create", {"name": "ci", "url": "http://127.0.0.1:2/"})
    await bench.organization.call("POST", f"{root}/{hook['id']}/toggle", {"enabled": False})
    await bench.admin.delete("Secret", "default-webhook")
    repaired = await bench.later(400)
    left = {one["id"]: one for one in await bench.webhooks()}
    assert set(left) == {hook["id"], foreign["id"]}
    assert left[hook["id"]]["enabled"]
    assert (await _secret(bench)).startswith(left[hook["id"]]["secretPrefix"])
    assert len(bench.accounts.webhook_secrets.of(bench.key) or ()) == 2
    assert condition(repaired, "Ready")["status"] == "True"
    assert repaired["metadata"]["uid"] == account["metadata"]["uid"]


async def test_another_public_url_replaces_the_subscription(bench: Bench) -> None:
    await bench.run()
    bench.settings = bench.settings.model_copy(update={"webhook_public_url": "http://127.0.0.1:2"})
    bench.restart()
    await bench.run()
    (hook,) = await bench.webhooks()
    assert hook["url"].startswith("http://127.0.0.1:2/")


async def test_a_secret_of_somebody_else_is_not_overwritten_and_nothing_is_subscribed(bench: Bench) -> None:
    theirs = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "default-webhook"}, "stringData": {"a": "b"}}
    await bench.admin.create(theirs)
    account = await bench.run()
    assert await bench.webhooks() == []
    assert "default-webhook" in condition(account, "WebhookReady")["message"]
    assert set((await bench.admin.get("Secret", "default-webhook"))["data"]) == {"a"}


async def test_webhooks_that_are_switched_off_are_unsubscribed(bench: Bench) -> None:
    await bench.run()
    await bench.admin.patch("CloudAccount", "default", {"spec": {"webhook": {"enabled": False}}})
    account = await bench.run()
    assert await bench.webhooks() == []
    assert "webhook" not in account["status"]
    assert bench.accounts.webhook_secrets.of(bench.key) is None


async def _usable(bench: Bench) -> AccountReady:
    state = await bench.accounts.state(bench.key)
    assert isinstance(state, AccountReady)
    return state


async def test_creates_wait_for_the_subscription_and_are_woken_by_it(bench: Bench) -> None:
    await bench.admin.create(gpu_pod())
    await bench.watch("GpuPod", "trainer")
    await bench.watch("CloudAccount", "default")
    assert bench.accounts.deaf_for(await _usable(bench)) == 20
    waiting = ObjectKey("GpuPod", bench.admin.namespace, "trainer")
    assert (await bench.queue.take()).key == waiting  # since the account became usable
    bench.queue.done(waiting)
    await bench.run()
    assert bench.accounts.deaf_for(await _usable(bench)) == 0
    assert (await bench.queue.take()).key == waiting


async def test_creates_wait_for_no_subscription_that_cannot_be_had(bench: Bench) -> None:
    refusal = {"status": 500}
    await bench.cloud.control.fault(f"POST {HOOKS}/create", refusal, organizationId=bench.organization.id)
    await bench.run()
    assert bench.accounts.deaf_for(await _usable(bench)) == 20
    account = await bench.later(20)
    assert bench.accounts.deaf_for(await _usable(bench)) == 0
    assert "the webhook subscription cannot be kept" in condition(account, "WebhookReady")["message"]
    assert condition(account, "WebhookReady")["status"] == "False"


async def test_creates_wait_for_no_subscription_that_nobody_wants(bench: Bench) -> None:
    await bench.admin.patch("CloudAccount", "default", {"spec": {"webhook": {"enabled": False}}})
    await bench.run()
    assert bench.accounts.deaf_for(await _usable(bench)) == 0
    await bench.admin.annotate("CloudAccount", "default", {"gpurelay.dev/paused": "true"})
    bench.restart()
    await bench.run()
    assert bench.accounts.deaf_for(await _usable(bench)) == 0


async def test_a_secret_that_may_not_be_kept_is_told_and_holds_nothing_back(bench: Bench) -> None:
    account = await bench.admin.get("CloudAccount", "default")
    uid = account["metadata"]["uid"]
    owner = {"apiVersion": account["apiVersion"], "kind": "CloudAccount", "name": "default", "uid": uid}
    metadata = {"name": "default-webhook", "ownerReferences": [owner]}
    await bench.admin.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "immutable": True})
    account = await bench.run()
    assert bench.accounts.deaf_for(await _usable(bench)) == 0
    assert "may not keep the signing secret" in condition(account, "WebhookReady")["message"]


async def test_a_secret_of_somebody_else_is_not_overwritten_whatever_labels_it_has(bench: Bench) -> None:
    labels = {"app.kubernetes.io/managed-by": "relay-operator"}
    metadata = {"name": "default-webhook", "labels": labels}
    theirs = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"endpointUrl": "precious"}}
    before = await bench.admin.create(theirs)
    account = await bench.run()
    assert condition(account, "WebhookReady")["status"] == "False"
    assert "is not this account's: rename it" in condition(account, "WebhookReady")["message"]
    after = await bench.admin.get("Secret", "default-webhook")
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert await bench.webhooks() == []


def _webhook_ready(account: Manifest) -> tuple[str, str]:
    told = condition(account, "WebhookReady")
    return told["status"], told["reason"]


@pytest_asyncio.fixture
async def private_bench(bench: Bench, private_cloud: LocalCloud) -> AsyncIterator[Bench]:
    """The bench with its account in a private local cloud, whose clock the test may move."""
    organization = await private_cloud.control.create_organization(bench.admin.namespace)
    await bench.put_key(organization.api_key)
    await bench.admin.delete("CloudAccount", "default")
    await bench.admin.create(cloud_account(private_cloud.management_url, private_cloud.inference_url))
    settings = bench.settings.model_copy(update={"allowed_base_urls": private_cloud.ports.urls()})
    own = replace(bench, cloud=private_cloud, organization=organization, settings=settings)
    yield own
    await own.admin.delete("CloudAccount", "default")
    assert await own.run() == {}


async def _three_pods_come_and_go(bench: Bench) -> None:
    """The cloud tries to tell of them, and nobody listens where the operator says that it does."""
    (hook,) = await bench.webhooks()
    await bench.cloud.control.clock(mode="frozen")  # or else the first tries again while the others are counted
    for _ in range(3):
        pod = {"image": "pytorch/pytorch", "gpuModelId": "l40s", "gpuCount": 1, "volumeGb": 10}
        made = await bench.organization.call("POST", "/v1/pods", pod)
        await bench.organization.call("POST", f"/v1/vms/{made['id']}/terminate")
    attempts = f"/v1/orgs/{bench.organization.id}/webhooks/{hook['id']}/deliveries"

    async def failed() -> int:
        return len((await bench.organization.call("GET", attempts))["items"])

    first = await eventually(failed, lambda count: count >= 3, what="three deliveries failed")
    await bench.cloud.control.advance(80)
    await eventually(failed, lambda count: count >= 3 * first, what="each was tried twice more, in a minute")


async def test_deliveries_that_never_arrive_are_told(private_bench: Bench) -> None:
    bench = private_bench
    assert _webhook_ready(await bench.run()) == ("True", "Subscribed")
    (hook,) = await bench.webhooks()
    await _three_pods_come_and_go(bench)
    account = await bench.later(400)
    assert _webhook_ready(account) == ("False", "DeliveriesMissing")
    assert "the cloud's last 3 deliveries failed" in condition(account, "WebhookReady")["message"]
    assert account["status"]["webhook"]["id"] == hook["id"]
    bench.restart()
    assert _webhook_ready(await bench.run()) == ("False", "DeliveriesMissing"), "nothing tells otherwise"


async def test_what_could_not_be_delivered_while_no_operator_ran_is_no_trouble(private_bench: Bench) -> None:
    bench = private_bench
    await bench.run()
    await _three_pods_come_and_go(bench)
    bench.restart()
    assert _webhook_ready(await bench.run()) == ("True", "Subscribed")
    assert _webhook_ready(await bench.later(400)) == ("True", "Subscribed")


async def test_changes_that_only_polling_finds_are_told_until_a_webhook_comes(bench: Bench) -> None:
    """Where the cloud shows no list of its attempts."""
    operation = f"GET {HOOKS}/{{id}}/deliveries"
    await bench.cloud.control.fault(operation, {"status": 404}, organizationId=bench.organization.id)
    await bench.run()
    for _ in range(3):
        bench.accounts.found_by_polling(await _usable(bench))
    account = await bench.later(400)
    assert _webhook_ready(account) == ("False", "DeliveriesMissing")
    assert "polling found 3 changes" in condition(account, "WebhookReady")["message"]
    bench.accounts.heard(bench.key)
    assert _webhook_ready(await bench.later(400)) == ("True", "Subscribed")


async def test_a_delivery_of_the_cloud_wakes_the_object_it_is_about(bench: Bench) -> None:
    settings = bench.settings
    receiver = Receiver(
        bench.accounts.webhook_secrets.of,
        bench.accounts.webhook_secrets.seen,
        lambda account, event: EventRouter(bench.cache, bench.queue, bench.accounts.unclaimed).on_event(account, event),
        bench.metrics.on_delivery,
        settings.webhook_body_limit_bytes,
        settings.webhook_deduplication_size,
    )
    async with http_server(receiver.app(), ListenAddress("127.0.0.1", 0)) as address:
        bench.follow(settings.model_copy(update={"webhook_public_url": f"http://{address}"}))
        await bench.run()
        pod = await bench.organization.call(
            "POST", "/v1/pods", {"image": "pytorch/pytorch", "gpuModelId": "l40s", "gpuCount": 1, "volumeGb": 10}
        )

        async def accepted() -> float | None:
            sample = {"outcome": "accepted"}
            return bench.metrics.registry.get_sample_value("gpurelay_webhook_deliveries_total", sample)

        await eventually(accepted, what="the delivery is accepted")
        assert pod["id"] in list(bench.accounts.unclaimed(bench.key).nameless())
        await bench.admin.create(gpu_pod())
        await bench.admin.patch("GpuPod", "trainer", {"status": {"id": pod["id"]}}, subresource="status")
        await bench.watch("GpuPod", "trainer")
        await bench.watch("CloudAccount", "default")
        await bench.organization.call("POST", f"/v1/vms/{pod['id']}/terminate")
        assert (await bench.queue.take()).key == ObjectKey("GpuPod", bench.admin.namespace, "trainer")
        await bench.admin.delete("GpuPod", "trainer")


async def test_an_account_in_a_namespace_that_ends_does_not_roll_its_secret_over_and_over(bench: Bench) -> None:
    await bench.run()
    (hook,) = await bench.webhooks()
    await bench.admin.create(gpu_pod() | {"metadata": {"name": "trainer", "finalizers": ["gpurelay.dev/test"]}})
    await bench.watch("GpuPod", "trainer")
    await bench.admin.delete("Namespace", bench.admin.namespace)

    async def ending() -> bool:
        account, kept = await bench.account(), await bench.admin.find("Secret", "default-webhook")
        return "deletionTimestamp" in (account or {})["metadata"] and kept is None

    await eventually(ending, what="the namespace's end reaches the account and its Secret")
    account = await bench.later(400)
    assert condition(account, "Stalled")["reason"] == "InUse"
    assert await bench.webhooks() == [hook]
    await bench.admin.patch("GpuPod", "trainer", {"metadata": {"finalizers": None}})

    async def gone() -> bool:
        return await bench.admin.find("GpuPod", "trainer") is None

    await eventually(gone, what="the pod is gone")
    await bench.watch("GpuPod", "trainer")
    assert await bench.run() == {}
    assert await bench.webhooks() == []
