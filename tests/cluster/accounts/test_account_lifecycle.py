"""Accounts from their first look to their end, against a real API server and the local cloud."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from relay_client import Unauthorized
from relay_operator.api.meta import ObjectKey
from relay_operator.api.references import AccountKind, AccountRef
from relay_operator.engine.account import AccountReady, AccountRefused, AccountWaiting
from relay_operator.engine.queue import Priority, Taken
from tests.conftest import OPERATOR_NAMESPACE
from tests.support.kstatus import kstatus
from tests.support.manifests import SECRET, api_key_secret, condition, gpu_pod, relay_object

if TYPE_CHECKING:
    from tests.cluster.accounts.conftest import Bench


def _reason(account: dict[str, object]) -> tuple[str, str]:
    told = condition(account, "Ready")
    return told["status"], told["reason"]


async def test_an_account_becomes_ready_and_shows_organization_and_money(bench: Bench) -> None:
    account = await bench.run()
    status = account["status"]
    assert _reason(account) == ("True", "Available")
    assert status["organizationId"] == bench.organization.id
    assert status["availableCents"] == 100_000
    assert status["observedGeneration"] == account["metadata"]["generation"]
    assert "gpurelay.dev/cloud-resource" in account["metadata"]["finalizers"]


async def test_passes_over_a_settled_account_write_nothing(bench: Bench) -> None:
    await bench.run()
    before = (await bench.run())["metadata"]["resourceVersion"]
    await bench.later(61)
    await bench.later(301)
    bench.restart()
    assert (await bench.run())["metadata"]["resourceVersion"] == before


async def test_a_missing_secret_is_told_and_its_coming_is_seen_within_seconds(bench: Bench) -> None:
    await bench.admin.delete("Secret", SECRET)
    account = await bench.run()
    assert _reason(account) == ("False", "SecretMissing")
    assert SECRET in condition(account, "Reconciling")["message"]
    await bench.admin.create(api_key_secret(bench.organization.api_key))
    assert _reason(await bench.later(6)) == ("True", "Available")


async def test_a_secret_that_does_not_come_calls_for_people_after_a_while(bench: Bench) -> None:
    await bench.admin.delete("Secret", SECRET)
    waiting = await bench.run()
    assert (condition(waiting, "Stalled"), kstatus(waiting)) == ({}, "InProgress")
    bench.ahead = timedelta(seconds=301)
    stalled = await bench.later(301)
    assert (condition(stalled, "Reconciling"), kstatus(stalled)) == ({}, "Failed")
    assert condition(stalled, "Stalled")["reason"] == "SecretMissing"
    assert kstatus(await bench.later(61)) == "Failed", "and stays so"


async def test_a_revoked_key_is_refused_and_a_rotated_one_is_taken_up_within_a_minute(bench: Bench) -> None:
    await bench.run()
    ready = await bench.accounts.state(bench.key)
    assert isinstance(ready, AccountReady)
    await bench.put_key("or_revoked_key_0123456789")
    refused = await bench.later(61)
    assert _reason(refused) == ("False", "AccountUnauthorized")
    assert refused["status"]["organizationId"] == bench.organization.id
    await bench.put_key(bench.organization.api_key)
    assert _reason(await bench.later(6)) == ("True", "Available")


async def test_a_refused_call_makes_the_account_unusable_at_once_until_its_key_is_another(bench: Bench) -> None:
    await bench.run()
    ready = await bench.accounts.state(bench.key)
    assert isinstance(ready, AccountReady)
    bench.accounts.failed(ready, Unauthorized("LIST_VMS", "the key was revoked", status=401))
    state = await bench.accounts.state(bench.key)
    assert isinstance(state, AccountRefused)
    assert state.reason == "AccountUnauthorized"
    bench.clock.now += 301
    assert isinstance(await bench.accounts.state(bench.key), AccountReady)


async def test_a_key_of_another_organization_is_refused_while_anything_depends_on_the_account(bench: Bench) -> None:
    await bench.run()
    await bench.admin.create(gpu_pod())
    await bench.watch("GpuPod", "trainer")
    other = await bench.cloud.control.create_organization("other")
    await bench.put_key(other.api_key)
    for restarted in (False, True):
        if restarted:
            bench.restart()
            await bench.watch("GpuPod", "trainer")
        account = await bench.later(61)
        assert _reason(account) == ("False", "AccountForbidden")
        assert account["status"]["organizationId"] == bench.organization.id
    await bench.admin.delete("GpuPod", "trainer")
    await bench.watch("GpuPod", "trainer")
    bench.clock.now += 400
    assert (await bench.run())["status"]["organizationId"] == other.id


async def test_a_url_outside_the_allow_list_gets_no_key_and_no_request(bench: Bench) -> None:
    await bench.admin.patch("CloudAccount", "default", {"spec": {"baseUrl": "http://cloud.example.com"}})
    account = await bench.run()
    assert _reason(account) == ("False", "AccountNotAllowed")
    assert "RELAY_ALLOWED_BASE_URLS" in condition(account, "Stalled")["message"]
    assert await bench.cloud.control.requests(organization=bench.organization) == []


async def test_a_key_without_scopes_works_and_says_what_it_cannot_see(bench: Bench) -> None:
    limited = await bench.cloud.control.create_organization("limited", scopes=["vms:read"])
    await bench.put_key(limited.api_key)
    account = await bench.run()
    assert _reason(account) == ("True", "Available")
    assert "balance" in condition(account, "Ready")["message"]
    assert condition(account, "WebhookReady")["reason"] == "WebhookRefused"


async def test_a_silent_cloud_changes_nothing_at_first_and_stalls_the_account_after_three_looks(bench: Bench) -> None:
    before = await bench.run()
    everything = {"status": 500}
    organization = bench.organization.id
    fault = "GET /v1/orgs/{orgId}/billing/balance"
    await bench.cloud.control.fault(fault, everything, organizationId=organization)
    for seconds in (400, 10):
        account = await bench.later(seconds)
        assert account["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    account = await bench.later(10)
    assert _reason(account) == ("True", "Available")
    assert condition(account, "Stalled")["reason"] == "CloudUnavailable"
    await bench.cloud.control.clear_faults()
    account = await bench.later(400)
    assert "Stalled" not in {item["type"] for item in account["status"]["conditions"]}


async def test_auto_recharge_that_a_cloud_without_payments_refuses_takes_nothing_else_with_it(bench: Bench) -> None:
    refuse = "PUT /v1/orgs/{orgId}/billing/auto-recharge"
    await bench.cloud.control.fault(refuse, {"status": 503}, organizationId=bench.organization.id)
    wanted = {"enabled": True, "thresholdCents": 2_000, "amountCents": 5_000}
    await bench.admin.patch("CloudAccount", "default", {"spec": {"autoRecharge": wanted}})
    for _ in range(3):
        account = await bench.later(400)
    assert _reason(account) == ("True", "Available")
    assert "auto-recharge cannot be set" in condition(account, "Ready")["message"]
    assert condition(account, "WebhookReady")["status"] == "True"
    assert account["status"]["webhook"]["id"]
    assert "Stalled" not in {item["type"] for item in account["status"]["conditions"]}


async def test_auto_recharge_is_kept_as_asked(bench: Bench) -> None:
    wanted = {"enabled": True, "thresholdCents": 2_000, "amountCents": 5_000}
    await bench.admin.patch("CloudAccount", "default", {"spec": {"autoRecharge": wanted}})
    await bench.run()
    path = f"/v1/orgs/{bench.organization.id}/billing/auto-recharge"
    assert await bench.organization.call("GET", path) == wanted


async def test_the_organization_is_kept_as_asked_and_its_name_shown(bench: Bench) -> None:
    await bench.run()
    wanted = {"name": "Team A", "billingEmail": "bills@example.com"}
    await bench.admin.patch("CloudAccount", "default", {"spec": {"organization": wanted}})
    account = await bench.run()
    path = f"/v1/orgs/{bench.organization.id}"
    assert (await bench.organization.call("GET", path)).items() >= wanted.items()
    assert account["status"]["organizationName"] == "Team A"
    await bench.organization.call("PATCH", path, {"name": "Renamed by hand"})
    account = await bench.later(400)
    assert (await bench.organization.call("GET", path)).items() >= wanted.items()
    written = account["metadata"]["resourceVersion"]
    assert (await bench.later(400))["metadata"]["resourceVersion"] == written


async def test_the_name_is_shown_whatever_the_cloud_answers_to_a_change_and_in_the_organization(bench: Bench) -> None:
    where = {"organizationId": bench.organization.id}
    path = "/v1/orgs/{orgId}"
    await bench.cloud.control.fault(f"PATCH {path}", {"status": 200, "body": {"ok": True}}, **where)
    await bench.cloud.control.fault(f"GET {path}", {"status": 200, "body": {"id": bench.organization.id}}, **where)
    await bench.admin.patch("CloudAccount", "default", {"spec": {"organization": {"name": "Team A"}}})
    assert (await bench.run())["status"]["organizationName"] == "Team A"
    wanted = {"name": None, "billingEmail": "bills@example.com"}
    await bench.admin.patch("CloudAccount", "default", {"spec": {"organization": wanted}})
    account = await bench.later(400)
    assert _reason(account) == ("True", "Available")
    assert account["status"]["organizationName"] is not None


async def test_a_key_that_may_not_change_the_organization_says_so(bench: Bench) -> None:
    limited = await bench.cloud.control.create_organization("limited", scopes=["vms:read", "billing:read"])
    await bench.put_key(limited.api_key)
    await bench.admin.patch("CloudAccount", "default", {"spec": {"organization": {"name": "Team A"}}})
    account = await bench.run()
    assert _reason(account) == ("True", "Available")
    assert "the organization cannot be changed" in condition(account, "Ready")["message"]


async def test_a_deleted_account_waits_for_what_depends_on_it_and_keeps_its_secret(bench: Bench) -> None:
    await bench.run()
    await bench.admin.create(gpu_pod())
    await bench.watch("GpuPod", "trainer")
    await bench.admin.delete("Secret", SECRET)
    await bench.admin.delete("CloudAccount", "default")
    account = await bench.run()
    assert condition(account, "Stalled")["reason"] == "InUse"
    bench.restart()
    await bench.watch("GpuPod", "trainer")
    await bench.run()
    assert isinstance(await bench.accounts.state(bench.key), AccountReady)
    await bench.admin.delete("GpuPod", "trainer")
    await bench.watch("GpuPod", "trainer")
    assert await bench.run() == {}
    assert await bench.webhooks() == []
    assert await bench.admin.find("Secret", SECRET) is None


async def test_a_secret_that_is_deleted_to_be_replaced_is_let_go(bench: Bench) -> None:
    await bench.run()
    await bench.admin.delete("Secret", SECRET)
    await bench.later(61)
    assert await bench.admin.find("Secret", SECRET) is not None
    bench.ahead = timedelta(seconds=61)
    await bench.later(61)
    assert await bench.admin.find("Secret", SECRET) is None


async def test_another_secret_is_held_in_place_of_the_former(bench: Bench) -> None:
    await bench.run()
    await bench.admin.create(api_key_secret(bench.organization.api_key, "second"))
    await bench.admin.patch("CloudAccount", "default", {"spec": {"apiKeySecretRef": {"name": "second"}}})
    await bench.run()
    former = await bench.admin.get("Secret", SECRET)
    assert "finalizers" not in former["metadata"]
    assert (await bench.admin.get("Secret", "second"))["metadata"]["finalizers"]


async def test_the_secret_of_an_account_whose_finalizer_was_taken_off_by_hand_is_let_go(bench: Bench) -> None:
    await bench.run()
    await bench.admin.patch("CloudAccount", "default", {"metadata": {"finalizers": None}})
    await bench.admin.delete("CloudAccount", "default")
    assert await bench.run() == {}
    assert "finalizers" not in (await bench.admin.get("Secret", SECRET))["metadata"]


async def test_the_default_account_is_the_namespaces_own_else_the_shared_one_where_it_admits(bench: Bench) -> None:
    namespace = bench.admin.namespace
    shared = ObjectKey("ClusterCloudAccount", "", "default")
    await bench.admin.apply(
        {**api_key_secret(bench.organization.api_key, "shared"),
         "metadata": {"name": "shared", "namespace": OPERATOR_NAMESPACE}}
    )  # fmt: skip
    await bench.admin.create(
        relay_object(
            "ClusterCloudAccount",
            "default",
            baseUrl=bench.cloud.management_url,
            apiKeySecretRef={"name": "shared", "key": "api-key", "namespace": OPERATOR_NAMESPACE},
            allowedNamespaces={"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            allowAdoption=True,
        )
    )
    try:
        account = await bench.run(shared)
        assert _reason(account) == ("True", "Available")
        await bench.watch("CloudAccount", "default")
        own = await bench.accounts.resolve(namespace, None)
        assert isinstance(own, AccountReady)
        assert own.key == bench.key
        bench.cache.drop(bench.key)
        admitted = await bench.accounts.resolve(namespace, None)
        assert isinstance(admitted, AccountReady)
        assert (admitted.key, admitted.admits, admitted.adoption_allowed) == (shared, True, True)
        assert isinstance(await bench.accounts.resolve("kube-system", None), AccountWaiting)
        named = AccountRef(kind=AccountKind.CLUSTER_CLOUD_ACCOUNT, name="default")
        refused = await bench.accounts.resolve("kube-system", named)
        assert isinstance(refused, AccountRefused)
        assert refused.reason == "AccountNotAllowed"
        ends = await bench.accounts.resolve("kube-system", named, ending=True)
        assert isinstance(ends, AccountReady)
        assert (ends.key, ends.admits, ends.adoption_allowed) == (shared, False, False)
    finally:
        await bench.admin.delete("ClusterCloudAccount", "default")
        assert await bench.run(shared) == {}


async def test_a_missing_account_is_waited_for_and_its_coming_wakes_the_objects(bench: Bench) -> None:
    waiting = await bench.accounts.resolve(bench.admin.namespace, None)
    assert isinstance(waiting, AccountWaiting)
    assert waiting.reason == "AccountMissing"
    await bench.admin.create(gpu_pod())
    await bench.watch("GpuPod", "trainer")
    await bench.run()
    woken = await bench.queue.take()
    assert woken == Taken(ObjectKey("GpuPod", bench.admin.namespace, "trainer"), Priority.CHANGE, bench.clock())
    await bench.admin.delete("GpuPod", "trainer")


async def test_the_key_appears_in_no_status_and_no_log(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    account = await bench.run()
    await bench.put_key("or_wrong_key_0123456789")
    refused = await bench.later(61)
    assert "the account can be used" in caplog.text
    assert "This API key is not valid" in caplog.text
    text = f"{account}{refused}{caplog.text}"
    assert bench.organization.api_key not in text
    assert "or_wrong_key_0123456789" not in text
