"""What hangs at one organization's receivers holds up nobody else's deliveries."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from relay_localcloud.webhooks.circuits import HANGS_ALLOWED, LONGEST_REST
from tests.localcloud.support.events import create_webhook, deliveries_of, make_event, settle
from tests.localcloud.support.receiver import Receiver
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Organization, Server


async def count(receiver: Receiver) -> int:
    return len(receiver.received)


async def answered(organization: Organization) -> list[str]:
    """The deliveries that the receiver took: it may hear of a call when the cloud has long given it up."""
    items = (await organization.server.ok("GET", f"/deliveries?organizationId={organization.id}"))["items"]
    return [item["deliveryId"] for item in items if item.get("statusCode") == 200]


async def hanging(server: Server, receiver: Receiver, subscriptions: int, events: int) -> Organization:
    """An organization so many of whose events are called out to subscriptions that do not answer."""
    organization = await server.organization()
    for _ in range(subscriptions):
        await create_webhook(organization, receiver, "vm.terminated")
    for _ in range(events):
        await make_event(organization)
    return organization


async def test_very_many_hanging_receivers_of_one_organization_delay_no_other(start_server: StartServer) -> None:
    server = start_server("--ephemeral")
    await server.ok("PATCH", "/settings", {"webhookTimeoutSeconds": 300})
    async with Receiver(hang=asyncio.Event()) as slow, Receiver() as quick:
        await hanging(server, slow, subscriptions=40, events=10)
        await eventually(lambda: count(slow), lambda seen: seen >= 64, every=0.05)
        other = await server.organization()
        await create_webhook(other, quick)
        await make_event(other)
        await eventually(lambda: count(quick), lambda seen: seen == 1, every=0.05)
        assert len(slow.received) == 64


async def test_what_waited_for_its_organizations_share_is_delivered_in_the_end(start_server: StartServer) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    await server.ok("PATCH", "/settings", {"webhookTimeoutSeconds": 300})
    async with Receiver(hang=asyncio.Event()) as slow:
        organization = await hanging(server, slow, subscriptions=20, events=8)
        await eventually(lambda: count(slow), lambda seen: seen == 64, every=0.05)
        assert slow.hang is not None
        slow.hang.set()
        await settle(organization)
        assert len({call.delivery for call in slow.received}) == 160


async def test_of_what_happens_while_too_many_deliveries_wait_none_is_told(start_server: StartServer) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    await server.ok("PATCH", "/settings", {"webhookTimeoutSeconds": 300, "pendingDeliveries": 3})
    async with Receiver(hang=asyncio.Event()) as slow, Receiver() as quick:
        organization = await hanging(server, slow, subscriptions=1, events=0)
        told = [await make_event(organization) for _ in range(3)]
        await make_event(organization)
        other = await server.organization()
        await create_webhook(other, quick)
        await make_event(other)
        await eventually(lambda: count(quick), lambda seen: seen == 1, every=0.05)
        assert slow.hang is not None
        slow.hang.set()
        await settle(organization)
        told.append(await make_event(organization))
        await settle(organization)
        assert sorted(call.event["data"]["vmId"] for call in slow.received) == sorted(told)


async def test_a_receiver_that_hangs_again_and_again_is_called_less_often_and_gets_all_once_it_answers(
    start_server: StartServer,
) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    await server.ok("PATCH", "/settings", {"webhookTimeoutSeconds": 0.1})
    async with Receiver(hang=asyncio.Event()) as receiver:
        organization = await server.organization()
        webhook = await create_webhook(organization, receiver, "vm.terminated")
        for _ in range(HANGS_ALLOWED + 30):
            await make_event(organization)
            await settle(organization)
        errors = [each["error"] for each in await deliveries_of(organization, webhook)]
        rests = "not called: it left too many calls in a row unanswered, and rests until "
        assert [error.startswith(rests) for error in errors] == [True] * 30 + [False] * HANGS_ALLOWED
        await server.advance(70)
        assert len(receiver.received) < HANGS_ALLOWED + 10
        assert receiver.hang is not None
        receiver.hang.set()
        await server.ok("PATCH", "/settings", {"webhookTimeoutSeconds": 60})
        await server.advance(LONGEST_REST / 1_000_000)
        await make_event(organization)
        await settle(organization)
        assert len(await answered(organization)) == 1
        await server.advance(300)
        assert len(set(await answered(organization))) == HANGS_ALLOWED + 31


async def test_a_receiver_that_hung_gets_the_last_attempt_of_every_delivery(start_server: StartServer) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    await server.ok("PATCH", "/settings", {"webhookTimeoutSeconds": 0.1})
    async with Receiver(hang=asyncio.Event()) as receiver:
        organization = await server.organization()
        webhook = await create_webhook(organization, receiver, "vm.terminated")
        for _ in range(8):
            await make_event(organization)
        await settle(organization)
        for wait in (10, 60):
            await server.advance(wait)
        hung = [each for each in await deliveries_of(organization, webhook) if each["error"].startswith("no answer")]
        assert HANGS_ALLOWED <= len(hung) <= 24
        assert receiver.hang is not None
        receiver.hang.set()
        await server.ok("PATCH", "/settings", {"webhookTimeoutSeconds": 60})
        await server.advance(300)
        assert len(set(await answered(organization))) == 8
