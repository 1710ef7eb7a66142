"""How webhooks are sent: signed, filtered, at least once, with three retries (section 6)."""

from __future__ import annotations

import asyncio
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.localcloud.support.clusters import running
from tests.localcloud.support.events import create_pod, create_webhook, deliveries_of, make_event, settle
from tests.localcloud.support.receiver import Receiver
from tests.localcloud.support.workloads import happens
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Organization, Server


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
        await server.ok("PATCH", "/settings", {"webhookTimeoutSeconds": 300})
        assert receiver.hang is not None
        receiver.hang.set()
        await server.advance(10)
        assert [record.get("statusCode") for record in await deliveries_of(organization, webhook)] == [200, None]


async def test_calls_about_one_workload_follow_one_another_and_others_do_not_wait(start_server: StartServer) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    await server.ok("PATCH", "/settings", {"webhookTimeoutSeconds": 300})
    organization = await server.organization()
    cluster_id = await running(organization, replicaCount=1)
    async with Receiver(hang=asyncio.Event()) as receiver:
        await create_webhook(organization, receiver)

        async def types() -> list[str]:
            return receiver.types

        await happens(organization, cluster_id, "unhealthy")
        for number in (1, 2):
            await make_event(organization)
            arrived = ["replica.unhealthy", *["vm.terminated"] * number]
            await eventually(types, arrived.__eq__, every=0.01)
        assert receiver.hang is not None
        receiver.hang.set()
        await settle(organization)
        assert receiver.types == ["replica.unhealthy", "vm.terminated", "vm.terminated", "cluster.degraded"]


async def test_a_slow_receiver_holds_up_nobody_else(start_server: StartServer) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    await server.ok("PATCH", "/settings", {"webhookTimeoutSeconds": 300})
    organization = await server.organization()
    async with Receiver(hang=asyncio.Event()) as slow, Receiver() as quick:
        await create_webhook(organization, slow)
        await create_webhook(organization, quick)
        for _ in range(80):  # more than one organization is sent at once
            await make_event(organization)

        async def received() -> int:
            return len(quick.received)

        await eventually(received, lambda count: count == 80, every=0.02)
        assert slow.hang is not None
        slow.hang.set()
        await settle(organization)
        assert len(slow.received) == 80
