"""Webhooks: section 6 of the specification and the settled details of subscriptions and deliveries."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from tests.localcloud.support.events import create_pod, create_webhook, make_event, settle
from tests.localcloud.support.receiver import Receiver
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.localcloud.conftest import StartServer
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


async def deliveries_of(organization: Organization, webhook: dict[str, Any]) -> list[dict[str, Any]]:
    page = await organization.ok("GET", f"/v1/orgs/{{org}}/webhooks/{webhook['id']}/deliveries")
    items: list[dict[str, Any]] = page["items"]
    return items


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


async def test_an_event_is_signed_over_its_raw_body(organization: Organization, receiver: Receiver) -> None:
    webhook = await create_webhook(organization, receiver)
    pod = await make_event(organization)
    await settle(organization)
    (received,) = receiver.received
    assert received.is_signed_with(webhook["secret"])
    assert not received.is_signed_with(webhook["secret"] + "x")
    assert received.headers["content-type"] == "application/json"
    assert received.headers["x-relay-event"] == "vm.terminated"
    assert received.delivery
    assert sorted(received.event) == ["created_at", "data", "id", "type"]
    assert received.event["type"] == "vm.terminated"
    assert pod in received.event["data"].values()
    now = (await organization.server.ok("GET", "/clock"))["now"]
    assert datetime.fromisoformat(received.event["created_at"]) == datetime.fromisoformat(now)


async def test_an_event_due_now_goes_out_though_the_clock_stands_still(
    organization: Organization, receiver: Receiver
) -> None:
    await create_webhook(organization, receiver)
    await make_event(organization)

    async def received() -> int:
        return len(receiver.received)

    await eventually(received, lambda count: count == 1, every=0.01)


async def test_events_are_filtered_by_subscription(organization: Organization) -> None:
    async with Receiver() as running, Receiver() as terminated, Receiver() as every, Receiver() as clusters:
        await create_webhook(organization, running, "vm.running")
        await create_webhook(organization, terminated, "vm.terminated", "cluster.failed")
        await create_webhook(organization, every)
        await create_webhook(organization, clusters, "cluster.running", "replica.healthy")
        pod = await create_pod(organization)
        await organization.server.advance(600)
        await organization.ok("POST", f"/v1/vms/{pod}/terminate")
        await settle(organization)
        assert running.types == ["vm.running"]
        assert terminated.types == ["vm.terminated"]
        assert every.types == ["vm.running", "vm.terminated"]
        assert clusters.types == []
        same_event = {received.event["id"] for received in (every.received[0], running.received[0])}
        assert len(same_event) == 1
        assert every.received[0].delivery != running.received[0].delivery


async def test_another_organization_hears_nothing(
    server: Server, organization: Organization, receiver: Receiver
) -> None:
    other = await server.organization()
    await create_webhook(other, receiver)
    await make_event(organization)
    await settle(organization)
    assert receiver.received == []


async def test_a_failed_delivery_is_retried_after_10_60_and_300_seconds_and_then_given_up(
    organization: Organization, receiver: Receiver
) -> None:
    webhook = await create_webhook(organization, receiver)
    receiver.answers = [500] * 10
    await make_event(organization)
    await settle(organization)
    assert len(receiver.received) == 1
    for wait, attempts in ((9.9, 1), (0.1, 2), (59.9, 2), (0.1, 3), (299.9, 3), (0.1, 4), (86_400, 4)):
        await organization.server.advance(wait)
        assert len(receiver.received) == attempts, (wait, attempts)
    assert len({received.delivery for received in receiver.received}) == 1
    assert len({received.raw for received in receiver.received}) == 1
    records = await deliveries_of(organization, webhook)
    assert [record["attempt"] for record in records] == [4, 3, 2, 1]
    assert [record["statusCode"] for record in records] == [500] * 4
    times = [datetime.fromisoformat(record["requestedAt"]) for record in reversed(records)]
    assert [(later - times[0]).total_seconds() for later in times] == [0, 10, 70, 370]


async def test_one_advance_over_all_retries_makes_them_at_their_own_times(
    organization: Organization, receiver: Receiver
) -> None:
    webhook = await create_webhook(organization, receiver)
    receiver.answers = [503, 404, 400, 200]
    await make_event(organization)
    await organization.server.advance(30 * 86_400)
    records = await deliveries_of(organization, webhook)
    assert [record["statusCode"] for record in records] == [200, 400, 404, 503]
    times = [datetime.fromisoformat(record["requestedAt"]) for record in reversed(records)]
    assert [(later - times[0]).total_seconds() for later in times] == [0, 10, 70, 370]


async def test_while_the_clock_is_moved_nothing_overtakes_a_retry(
    start_server: StartServer, receiver: Receiver
) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    await server.ok("PATCH", "/settings", {"placementSeconds": 30, "startSeconds": 0})
    organization = await server.organization()
    await create_webhook(organization, receiver)
    receiver.answers = [500]
    await create_pod(organization)
    await make_event(organization)
    await server.advance(3600)
    assert receiver.types == ["vm.terminated", "vm.terminated", "vm.running"]


async def test_a_clock_that_runs_makes_transitions_and_retries_by_itself(
    start_server: StartServer, receiver: Receiver
) -> None:
    server = start_server("--ephemeral")
    organization = await server.organization()
    webhook = await create_webhook(organization, receiver)
    receiver.answers = [500, 500]
    await create_pod(organization)
    await server.ok("POST", "/clock", {"mode": "scaled", "rate": 200})

    async def calls() -> int:
        return len(receiver.received)

    await eventually(calls, lambda count: count == 3, every=0.01)
    await settle(organization)
    records = await deliveries_of(organization, webhook)
    assert [record["statusCode"] for record in records] == [200, 500, 500]
    times = [datetime.fromisoformat(record["requestedAt"]) for record in reversed(records)]
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(times)]
    assert [gaps[0] >= 10, gaps[1] >= 60] == [True, True]


async def test_success_ends_the_retries(organization: Organization, receiver: Receiver) -> None:
    await create_webhook(organization, receiver)
    receiver.answers = [500, 204]
    await make_event(organization)
    await organization.server.advance(86_400)
    assert len(receiver.received) == 2


async def test_a_redirect_is_a_failure_and_is_not_followed(organization: Organization, receiver: Receiver) -> None:
    webhook = await create_webhook(organization, receiver)
    receiver.answers = [302, 200]
    await make_event(organization)
    await settle(organization)
    assert len(receiver.received) == 1
    assert [record["statusCode"] for record in await deliveries_of(organization, webhook)] == [302]
    await organization.server.advance(10)
    assert len(receiver.received) == 2


async def test_a_receiver_that_is_not_there_is_a_failure_with_a_reason(organization: Organization) -> None:
    body = {"name": "gone", "url": "http://127.0.0.1:1/hook"}
    webhook = await organization.ok("POST", "/v1/orgs/{org}/webhooks/create", body)
    await make_event(organization)
    await settle(organization)
    (record,) = await deliveries_of(organization, webhook)
    assert record["error"]
    assert record.get("statusCode") is None


async def test_a_slow_receiver_counts_as_a_failure(start_server: StartServer) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    await server.ok("PATCH", "/settings", {"webhookTimeoutSeconds": 0.1})
    organization = await server.organization()
    async with Receiver(hang=asyncio.Event()) as receiver:
        webhook = await create_webhook(organization, receiver)
        await make_event(organization)
        await settle(organization)
        (record,) = await deliveries_of(organization, webhook)
        assert record["error"] == "no answer within 0.1 seconds"
        assert receiver.hang is not None
        receiver.hang.set()
        await server.advance(10)
        assert [record.get("statusCode") for record in await deliveries_of(organization, webhook)] == [200, None]


async def test_a_slow_receiver_holds_up_nobody_else(start_server: StartServer) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    await server.ok("PATCH", "/settings", {"webhookTimeoutSeconds": 300})
    organization = await server.organization()
    async with Receiver(hang=asyncio.Event()) as slow, Receiver() as quick:
        await create_webhook(organization, slow)
        await create_webhook(organization, quick)
        for _ in range(80):  # more than are sent at once in all
            await make_event(organization)

        async def received() -> int:
            return len(quick.received)

        await eventually(received, lambda count: count == 80, every=0.02)
        assert slow.hang is not None
        slow.hang.set()
        await settle(organization)
        assert len(slow.received) == 80


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
