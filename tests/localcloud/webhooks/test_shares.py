"""Organizations share the log of deliveries: none pushes out what another was told, and all of it is bounded."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import relay_localcloud.app  # noqa: F401 - every table, as in the running cloud
from relay_localcloud.kernel.store import Store
from relay_localcloud.webhooks import deliveries
from relay_localcloud.webhooks.deliveries import ATTEMPTS_KEPT, LARGEST
from relay_localcloud.webhooks.webhooks import ATTEMPTS, DELIVERIES
from tests.localcloud.support.events import create_webhook, make_event, settle

if TYPE_CHECKING:
    from relay_localcloud.kernel.store import Tx
    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.receiver import Receiver
    from tests.localcloud.support.server import Organization, Server

SHORTENED_AT = 21_000
"""The number of an attempt with which the log is shortened."""
FIXED = 300


async def flood(server: Server, organization: Organization, attempts: int, body: str = "{}") -> None:
    """As if so many attempts had been made at one delivery, the last of them just before the log is shortened."""
    state: dict[str, Any] = await server.ok("GET", "/export")
    tables = state["tables"]
    delivery = {"id": "whd_f", "webhook_id": "wh_f", "event_id": "evt_f", "event_type": "vm.running", "held": False}
    tables["webhook_deliveries"].append({**delivery, "body": body})
    tables["webhook_attempts"] += [
        {
            "sequence": sequence,
            "id": f"wha_{sequence}",
            "delivery_id": "whd_f",
            "webhook_id": "wh_f",
            "organization_id": organization.id,
            "event_type": "vm.running",
            "attempt": 1,
            "status_code": 200,
            "error": None,
            "fault_id": None,
            "requested_at": 0,
            "duration_ms": 1,
            "size": FIXED + len(body),
        }
        for sequence in range(SHORTENED_AT - attempts, SHORTENED_AT)
    ]
    await server.ok("POST", "/import", state)


async def kept(server: Server) -> Counter[str]:
    """How many attempts of each organization there are."""
    return Counter(item["organizationId"] for item in (await server.ok("GET", "/deliveries"))["items"])


@pytest.mark.parametrize("beyond", [-1, 0, 1, 900])
async def test_a_flood_of_deliveries_pushes_out_the_flooders_own(
    start_server: StartServer, receiver: Receiver, beyond: int
) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    quiet, busy = await server.organization(), await server.organization()
    await create_webhook(quiet, receiver, "vm.terminated")
    for _ in range(3):
        await make_event(quiet)
    await settle(quiet)
    flooded = ATTEMPTS_KEPT + beyond - 4
    await flood(server, busy, flooded)
    await make_event(quiet)
    await settle(quiet)
    assert await kept(server) == {quiet.id: 4, busy.id: min(flooded, ATTEMPTS_KEPT - 4)}
    items = (await server.ok("GET", f"/deliveries?organizationId={busy.id}"))["items"]
    assert items[-1]["id"] == f"wha_{SHORTENED_AT - 1}"
    for item in (await server.ok("GET", f"/deliveries?organizationId={quiet.id}"))["items"]:
        await server.ok("POST", f"/deliveries/{item['id']}/replay")


@pytest.mark.parametrize("beyond", [-1, 0, 1])
async def test_deliveries_are_bounded_by_bytes(start_server: StartServer, receiver: Receiver, beyond: int) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    quiet, busy = await server.organization(), await server.organization()
    await create_webhook(quiet, receiver, "vm.terminated")
    size = LARGEST // 100
    await flood(server, busy, 99 + beyond, "x" * (size - FIXED))
    await make_event(quiet)
    await settle(quiet)
    assert await kept(server) == {quiet.id: 1, busy.id: min(99 + beyond, 99)}


async def test_an_event_goes_with_its_last_attempt(start_server: StartServer, receiver: Receiver) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    quiet, busy = await server.organization(), await server.organization()
    webhook = await create_webhook(quiet, receiver, "vm.terminated")
    await flood(server, busy, 1, "x" * LARGEST)
    await server.ok("POST", "/faults", {"operation": "webhook", "effect": {"reorder": True}, "count": 1})
    await make_event(quiet)
    await make_event(quiet)
    await settle(quiet)
    assert await kept(server) == {quiet.id: 2}
    rows = (await server.ok("GET", "/export"))["tables"]["webhook_deliveries"]
    assert [row["webhook_id"] for row in rows] == [webhook["id"]] * 2, "what is held back is kept"


def test_however_many_are_too_many_some_go_at_a_time_with_their_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "ATTEMPTS_KEPT", 10)
    monkeypatch.setattr(deliveries, "DROPPED_AT_ONCE", 8)
    store = Store.ephemeral()
    store.count(deliveries.COUNTED)
    left = []
    with store.transaction(at=0) as tx:
        _told(tx, "busy", 25)
        _told(tx, "quiet", 4)
        for _ in range(4):
            deliveries._prune(tx)
            left.append(Counter(attempt.organization_id for attempt in ATTEMPTS.all(tx)))
        assert {attempt.delivery_id for attempt in ATTEMPTS.all(tx)} == {event.id for event in DELIVERIES.all(tx)}
    assert left == [{"busy": busy, "quiet": 4} for busy in (17, 9, 6, 6)]


def _told(tx: Tx, organization_id: str, count: int) -> None:
    sent = {"webhook_id": "wh_1", "event_type": "vm.running"}
    made = {"attempt": 1, "requested_at": 0, "duration_ms": 1, "size": 10}
    for number in range(count):
        delivery = f"whd_{organization_id}_{number}"
        DELIVERIES.insert(tx, id=delivery, event_id="evt", body="{}", **sent)
        ATTEMPTS.insert(tx, id=f"wha_{delivery}", delivery_id=delivery, organization_id=organization_id, **sent, **made)
