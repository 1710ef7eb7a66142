"""Webhook subscriptions and their records: section 6 of the specification and the settled details."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from relay_localcloud.webhooks.deliveries import PAUSED_KEPT
from tests.localcloud.support.events import create_webhook, deliveries_of, make_event, settle
from tests.localcloud.support.receiver import Receiver

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization, Server

EVENTS = [
    "cluster.running",
    "cluster.degraded",
    "cluster.failed",
    "replica.healthy",
    "replica.unhealthy",
    "replica.terminated",
    "vm.running",
    "vm.stopped",
    "vm.terminated",
]


async def test_create_answers_the_subscription_with_its_secret_once(
    organization: Organization, receiver: Receiver
) -> None:
    created = await organization.ok(
        "POST", "/v1/orgs/{org}/webhooks/create", {"name": "ci", "url": receiver.url, "events": ["vm.running"]}
    )
    assert sorted(created) == ["createdAt", "enabled", "events", "id", "name", "secret", "secretPrefix", "url"]
    assert created["secret"].startswith("whsec_")
    assert created["secret"].startswith(created["secretPrefix"])
    assert (created["name"], created["url"], created["events"]) == ("ci", receiver.url, ["vm.running"])
    assert created["enabled"] is True
    listed = await organization.ok("GET", "/v1/orgs/{org}/webhooks")
    assert listed == {"items": [{name: created[name] for name in created if name != "secret"}]}


async def test_names_of_webhooks_need_not_differ(organization: Organization, receiver: Receiver) -> None:
    body = {"name": "same", "url": receiver.url}
    first, second = [await organization.ok("POST", "/v1/orgs/{org}/webhooks/create", body) for _ in range(2)]
    assert first["id"] != second["id"]


async def test_events_may_be_left_out_for_all_of_them(organization: Organization, receiver: Receiver) -> None:
    created = await organization.ok("POST", "/v1/orgs/{org}/webhooks/create", {"name": "all", "url": receiver.url})
    assert created["events"] == []
    named = await organization.ok(
        "POST", "/v1/orgs/{org}/webhooks/create", {"name": "named", "url": receiver.url, "events": EVENTS}
    )
    assert named["events"] == EVENTS


@pytest.mark.parametrize(
    "change",
    [
        {"name": None},
        {"name": ""},
        {"name": 1},
        {"name": "n" * 201},
        {"name": "a\u202eb"},
        {"url": None},
        {"url": ""},
        {"url": "example.test/hook"},
        {"url": "ftp://example.test/"},
        {"url": "http://"},
        {"url": "http:///path"},
        {"url": "http://host:99999/"},
        {"url": "http://host:x/"},
        {"url": "http://[::1"},
        {"url": "http://a b/"},
        {"url": "http://host/\nX: y"},
        {"url": "http://" + "h" * 3000},
        {"events": ["vm.exploded"]},
        {"events": "vm.running"},
        {"events": [1]},
        {"events": [["vm.running"]]},
    ],
)
async def test_a_subscription_that_makes_no_sense_is_400(organization: Organization, change: dict[str, Any]) -> None:
    body = {"name": "hook", "url": "http://127.0.0.1:9/", "events": []} | change
    answer = await organization.call("POST", "/v1/orgs/{org}/webhooks/create", body)
    assert answer.refusal == (400, "invalid_request")
    assert await organization.ok("GET", "/v1/orgs/{org}/webhooks") == {"items": []}


async def test_a_paused_subscription_never_gets_what_happened_meanwhile(
    organization: Organization, receiver: Receiver
) -> None:
    webhook = await create_webhook(organization, receiver)
    path = f"/v1/orgs/{{org}}/webhooks/{webhook['id']}/toggle"
    paused = await organization.ok("POST", path, {"enabled": False})
    assert paused["enabled"] is False
    assert "secret" not in paused
    await make_event(organization)
    await settle(organization)
    assert (await organization.ok("POST", path, {"enabled": True}))["enabled"] is True
    pod = await make_event(organization)
    await organization.server.advance(86_400)
    (received,) = receiver.received
    assert pod in received.event["data"].values()


async def test_a_retry_that_falls_due_while_paused_is_sent_on_resume(
    organization: Organization, receiver: Receiver
) -> None:
    webhook = await create_webhook(organization, receiver)
    path = f"/v1/orgs/{{org}}/webhooks/{webhook['id']}/toggle"
    receiver.answers = [500, 500]
    await make_event(organization)
    await settle(organization)
    await organization.ok("POST", path, {"enabled": False})
    await organization.server.advance(86_400)
    assert len(receiver.received) == 1
    await organization.ok("POST", path, {"enabled": True})
    await settle(organization)
    assert len(receiver.received) == 2
    await organization.server.advance(60)
    assert [record["attempt"] for record in await deliveries_of(organization, webhook)] == [3, 2, 1]
    assert len({call.delivery for call in receiver.received}) == 1


async def test_a_retry_that_is_due_after_the_resume_is_sent_once(
    organization: Organization, receiver: Receiver
) -> None:
    webhook = await create_webhook(organization, receiver)
    path = f"/v1/orgs/{{org}}/webhooks/{webhook['id']}/toggle"
    receiver.answers = [500]
    await make_event(organization)
    await settle(organization)
    for enabled in (False, True, True):
        await organization.ok("POST", path, {"enabled": enabled})
        await organization.server.advance(3)
    assert len(receiver.received) == 1
    await organization.server.advance(86_400)
    assert len(receiver.received) == 2


async def test_toggling_without_a_body_flips(organization: Organization, receiver: Receiver) -> None:
    webhook = await create_webhook(organization, receiver)
    path = f"/v1/orgs/{{org}}/webhooks/{webhook['id']}/toggle"
    assert [(await organization.ok("POST", path))["enabled"] for _ in range(3)] == [False, True, False]
    assert (await organization.ok("POST", path, {}))["enabled"] is True
    assert (await organization.ok("POST", path, {"enabled": True}))["enabled"] is True
    assert (await organization.call("POST", path, {"enabled": "no"})).refusal == (400, "invalid_request")


async def test_deletion_ends_retries(organization: Organization, receiver: Receiver) -> None:
    webhook = await create_webhook(organization, receiver)
    receiver.answers = [500]
    await make_event(organization)
    await settle(organization)
    path = f"/v1/orgs/{{org}}/webhooks/{webhook['id']}"
    assert (await organization.call("DELETE", path)).status == 204
    await organization.server.advance(86_400)
    assert len(receiver.received) == 1
    assert (await organization.call("DELETE", path)).refusal == (404, "not_found")
    for call in (("GET", "/deliveries"), ("POST", "/toggle"), ("POST", "/regenerate-secret")):
        assert (await organization.call(call[0], path + call[1])).refusal == (404, "not_found")


async def test_a_rolled_secret_signs_retries_too(organization: Organization, receiver: Receiver) -> None:
    webhook = await create_webhook(organization, receiver)
    receiver.answers = [500]
    await make_event(organization)
    await settle(organization)
    rolled = await organization.ok("POST", f"/v1/orgs/{{org}}/webhooks/{webhook['id']}/regenerate-secret")
    assert rolled["secret"].startswith("whsec_")
    assert rolled["secret"] != webhook["secret"]
    assert rolled["id"] == webhook["id"]
    await organization.server.advance(10)
    first, retry = receiver.received
    assert first.is_signed_with(webhook["secret"])
    assert retry.is_signed_with(rolled["secret"])
    assert not retry.is_signed_with(webhook["secret"])


async def test_a_delivery_record_says_what_happened(organization: Organization, receiver: Receiver) -> None:
    webhook = await create_webhook(organization, receiver)
    await make_event(organization)
    await settle(organization)
    (record,) = await deliveries_of(organization, webhook)
    assert set(record) - {"error"} == {
        "id",
        "deliveryId",
        "eventType",
        "attempt",
        "statusCode",
        "requestedAt",
        "durationMs",
    }
    assert (record["eventType"], record["attempt"], record["statusCode"]) == ("vm.terminated", 1, 200)
    assert record["deliveryId"] == receiver.received[0].delivery
    assert isinstance(record["durationMs"], int)


async def test_deliveries_come_in_pages_newest_first(organization: Organization, receiver: Receiver) -> None:
    webhook = await create_webhook(organization, receiver)
    for _ in range(5):
        await make_event(organization)
        await settle(organization)
    path = f"/v1/orgs/{{org}}/webhooks/{webhook['id']}/deliveries"
    seen: list[str] = []
    cursor = ""
    while True:
        page = await organization.ok("GET", f"{path}?limit=2{cursor}")
        seen += [record["deliveryId"] for record in page["items"]]
        if not page.get("nextCursor"):
            break
        cursor = f"&cursor={page['nextCursor']}"
    assert seen == [received.delivery for received in reversed(receiver.received)]
    other = await create_webhook(organization, receiver)
    foreign = f"/v1/orgs/{{org}}/webhooks/{other['id']}/deliveries?limit=2{cursor}"
    for query in (f"{path}?limit=0", f"{path}?limit=201", f"{path}?limit=x", f"{path}?cursor=x", foreign):
        assert (await organization.call("GET", query)).refusal == (400, "invalid_request"), query


async def test_a_replayed_delivery_keeps_its_id_and_its_bytes(organization: Organization, receiver: Receiver) -> None:
    await create_webhook(organization, receiver)
    await make_event(organization)
    await settle(organization)
    listed = await organization.server.ok("GET", f"/deliveries?organizationId={organization.id}")
    (record,) = listed["items"]
    for identifier in (record["id"], record["deliveryId"]):
        await organization.server.ok("POST", f"/deliveries/{identifier}/replay")
        await settle(organization)
    assert len(receiver.received) == 3
    assert len({(received.delivery, received.raw) for received in receiver.received}) == 1
    assert (await organization.server.control("POST", "/deliveries/whd_x/replay")).refusal == (404, "not_found")


async def test_a_webhook_of_another_organization_reads_as_absent(
    server: Server, organization: Organization, receiver: Receiver
) -> None:
    other = await server.organization()
    webhook = await create_webhook(other, receiver)
    for method, suffix in (("DELETE", ""), ("POST", "/toggle"), ("GET", "/deliveries"), ("POST", "/regenerate-secret")):
        answer = await organization.call(method, f"/v1/orgs/{{org}}/webhooks/{webhook['id']}{suffix}")
        assert answer.refusal == (404, "not_found")


async def test_secrets_are_in_no_list_and_no_log(organization: Organization, receiver: Receiver) -> None:
    webhook = await create_webhook(organization, receiver)
    rest = webhook["secret"].removeprefix(webhook["secretPrefix"])
    await make_event(organization)
    await settle(organization)
    shown = [
        await organization.ok("GET", "/v1/orgs/{org}/webhooks"),
        await organization.ok("GET", f"/v1/orgs/{{org}}/webhooks/{webhook['id']}/deliveries"),
        await organization.server.ok("GET", "/deliveries"),
        await organization.server.ok("GET", "/requests"),
    ]
    assert rest not in json.dumps(shown)
    assert rest not in organization.server.log


@pytest.mark.parametrize("beyond", [-1, 0, 1])
async def test_so_many_calls_wait_for_a_subscription_that_is_paused(
    organization: Organization, receiver: Receiver, beyond: int
) -> None:
    server = organization.server
    webhook = await create_webhook(organization, receiver)
    path = f"/v1/orgs/{{org}}/webhooks/{webhook['id']}/toggle"
    receiver.answers = [500]
    await make_event(organization)
    await settle(organization)
    await organization.ok("POST", path, {"enabled": False})
    state = await server.ok("GET", "/export")
    tables = state["tables"]
    (item,) = [row for row in tables["due"] if row["lane"] == webhook["id"]]
    (sent,) = [row for row in tables["webhook_deliveries"] if row["id"] == item["subject"]]
    first_call = {**item, "payload": '{"attempt": 1}'}
    last = max(row["id"] for row in tables["due"])
    copies = range(1, PAUSED_KEPT + beyond)
    tables["webhook_deliveries"] += [{**sent, "id": f"{sent['id']}_{n}"} for n in copies]
    tables["due"] += [{**first_call, "id": last + n, "subject": f"{sent['id']}_{n}"} for n in copies]
    await server.ok("POST", "/import", state)
    await server.advance(86_400)
    tables = (await server.ok("GET", "/export"))["tables"]
    waiting = {row["subject"] for row in tables["due"] if row["lane"] == webhook["id"]}
    assert len(waiting) == PAUSED_KEPT + min(beyond, 0)
    assert {row["id"] for row in tables["webhook_deliveries"] if row["webhook_id"] == webhook["id"]} - waiting <= {
        sent["id"]
    }
