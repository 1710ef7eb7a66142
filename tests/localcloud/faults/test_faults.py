"""Faults: what is made to go wrong with requests and webhooks, as interfaces.md and the settled details say."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from tests.localcloud.support.events import create_webhook, make_event, settle
from tests.localcloud.support.server import request
from tests.support.eventually import PATIENCE_SECONDS, eventually

if TYPE_CHECKING:
    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.receiver import Receiver
    from tests.localcloud.support.server import Organization, Server

pytestmark = pytest.mark.usefixtures("no_faults_left")

WHOAMI = "GET /v1/whoami"
CREATE = "POST /v1/orgs/{orgId}/api-keys/create"


async def fault(server: Server, operation: str, effect: dict[str, Any], **more: Any) -> str:
    made = await server.ok("POST", "/faults", {"operation": operation, "effect": effect, **more})
    return str(made["id"])


async def names_of_keys(organization: Organization) -> list[str]:
    return [key["name"] for key in await organization.ok("GET", "/v1/orgs/{org}/api-keys")]


async def test_a_status_is_answered_instead_of_acting(organization: Organization) -> None:
    await fault(organization.server, CREATE, {"status": 500})
    answer = await organization.call("POST", "/v1/orgs/{org}/api-keys/create", {"name": "never"})
    assert answer.refusal == (500, "internal")
    assert "never" not in await names_of_keys(organization)


async def test_a_status_may_have_a_body_and_headers(organization: Organization) -> None:
    effect = {"status": 429, "body": {"error": "slow down", "code": "busy"}, "headers": {"Retry-After": "7"}}
    await fault(organization.server, WHOAMI, effect)
    answer = await organization.call("GET", "/v1/whoami")
    assert (answer.status, answer.body) == (429, {"error": "slow down", "code": "busy"})
    assert answer.headers["retry-after"] == "7"
    assert answer.headers["content-type"] == "application/json"


async def test_a_body_may_be_any_text(organization: Organization) -> None:
    effect = {"status": 502, "body": "<html>bad gateway</html>", "headers": {"Content-Type": "text/html"}}
    await fault(organization.server, WHOAMI, effect)
    answer = await organization.call("GET", "/v1/whoami")
    assert (answer.status, answer.raw) == (502, b"<html>bad gateway</html>")
    assert answer.headers["content-type"] == "text/html"


async def test_a_reply_dropped_after_acting_leaves_what_was_made(organization: Organization) -> None:
    fault_id = await fault(organization.server, CREATE, {"drop": "after"}, count=1)
    with pytest.raises(aiohttp.ClientConnectionError):
        await organization.call("POST", "/v1/orgs/{org}/api-keys/create", {"name": "made"})
    assert "made" in await names_of_keys(organization)
    logged = await organization.server.ok("GET", f"/requests?organizationId={organization.id}")
    lost = next(entry for entry in logged["items"] if entry["faultId"] == fault_id)
    assert (lost["operation"], lost["status"]) == (CREATE, 200)


async def test_a_request_dropped_before_acting_made_nothing(organization: Organization) -> None:
    fault_id = await fault(organization.server, CREATE, {"drop": "before"}, count=1)
    with pytest.raises(aiohttp.ClientConnectionError):
        await organization.call("POST", "/v1/orgs/{org}/api-keys/create", {"name": "never"})
    assert "never" not in await names_of_keys(organization)
    logged = await organization.server.ok("GET", f"/requests?organizationId={organization.id}")
    lost = next(entry for entry in logged["items"] if entry["faultId"] == fault_id)
    assert (lost["operation"], lost["status"]) == (CREATE, None)


async def test_a_drop_cuts_its_own_connection_without_a_byte_and_no_other(organization: Organization) -> None:
    await fault(organization.server, WHOAMI, {"drop": "before"}, count=1)
    port = int(organization.server.url.rpartition(":")[2])
    message = f"GET /v1/whoami HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {organization.api_key}\r\n\r\n".encode()
    (first_in, first_out), (second_in, second_out) = [
        await asyncio.open_connection("127.0.0.1", port) for _ in range(2)
    ]
    first_out.write(message)
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await first_in.read() == b""
        second_out.write(message)
        assert (await second_in.readline()).startswith(b"HTTP/1.1 200")
    first_out.close()
    second_out.close()


async def test_a_truncated_answer_declares_its_length_and_breaks(organization: Organization) -> None:
    whole = (await organization.call("GET", "/v1/whoami")).raw
    await fault(organization.server, WHOAMI, {"truncateBytes": 10})
    headers = {"Authorization": f"Bearer {organization.api_key}"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.get(organization.server.url + "/v1/whoami") as reply,
    ):
        assert reply.status == 200
        assert reply.headers["Content-Length"] == str(len(whole))
        with pytest.raises(aiohttp.ClientPayloadError):
            await reply.read()


async def test_a_broken_connection_is_no_error_of_the_server(start_server: StartServer) -> None:
    server = start_server("--ephemeral")
    for effect in ({"truncateBytes": 10}, {"drop": "before"}, {"drop": "after"}):
        await fault(server, CREATE, effect, count=1)
        with pytest.raises(aiohttp.ClientError):
            await server.seeded().call("POST", "/v1/orgs/{org}/api-keys/create", {"name": "k"})
    assert await asyncio.to_thread(server.stop) == 0
    assert server.complaints == []


async def test_truncating_beyond_the_end_changes_nothing(organization: Organization) -> None:
    whole = (await organization.call("GET", "/v1/whoami")).raw
    await fault(organization.server, WHOAMI, {"truncateBytes": 100_000})
    assert (await organization.call("GET", "/v1/whoami")).raw == whole


async def test_a_truncated_create_was_acted_on(organization: Organization) -> None:
    await fault(organization.server, CREATE, {"truncateBytes": 5}, count=1)
    with pytest.raises(aiohttp.ClientError):
        await organization.call("POST", "/v1/orgs/{org}/api-keys/create", {"name": "made"})
    assert "made" in await names_of_keys(organization)


async def test_html_takes_the_place_of_the_answer(organization: Organization) -> None:
    await fault(organization.server, CREATE, {"html": True}, count=1)
    answer = await organization.call("POST", "/v1/orgs/{org}/api-keys/create", {"name": "made"})
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.raw.startswith(b"<!DOCTYPE html>")
    assert "made" in await names_of_keys(organization)


async def test_html_in_place_of_an_answer_without_a_body_is_read(organization: Organization) -> None:
    made = await organization.ok("POST", "/v1/orgs/{org}/api-keys/create", {"name": "gone"})
    await fault(organization.server, "DELETE /v1/orgs/{orgId}/api-keys/{id}", {"html": True}, count=1)
    answer = await organization.call("DELETE", f"/v1/orgs/{{org}}/api-keys/{made['id']}")
    assert (answer.status, answer.raw[:15]) == (200, b"<!DOCTYPE html>")


@pytest.mark.parametrize("status", [204, 304])
async def test_an_answer_without_a_body_is_followed_by_the_next(organization: Organization, status: int) -> None:
    await fault(organization.server, WHOAMI, {"status": status, "body": {"error": "never read"}}, count=1)
    port = int(organization.server.url.rpartition(":")[2])
    message = f"GET /v1/whoami HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {organization.api_key}\r\n\r\n".encode()
    reading, writing = await asyncio.open_connection("127.0.0.1", port)
    writing.write(message + message)
    async with asyncio.timeout(PATIENCE_SECONDS):
        head = await reading.readuntil(b"\r\n\r\n")
        assert head.startswith(f"HTTP/1.1 {status} ".encode())
        assert b"content-length" not in head.lower()
        assert (await reading.readline()).startswith(b"HTTP/1.1 200")
    writing.close()


async def test_a_delay_holds_up_its_request_and_no_other(organization: Organization) -> None:
    fault_id = await fault(organization.server, CREATE, {"delaySeconds": PATIENCE_SECONDS}, count=1)
    path = "/v1/orgs/{org}/api-keys/create"
    answer = asyncio.create_task(organization.call("POST", path, {"name": "late"}))

    async def seen() -> list[int]:
        items = (await organization.server.ok("GET", "/faults"))["items"]
        return [each["seen"] for each in items if each["id"] == fault_id]

    await eventually(seen, lambda counts: counts == [1])
    assert "late" not in await names_of_keys(organization)
    assert not answer.done()
    answer.cancel()


async def test_a_delayed_request_is_acted_on_in_the_end(organization: Organization) -> None:
    await fault(organization.server, CREATE, {"delaySeconds": 0.05})
    answer = await organization.call("POST", "/v1/orgs/{org}/api-keys/create", {"name": "late"})
    assert answer.status == 200
    assert "late" in await names_of_keys(organization)


async def test_what_is_answered_late_was_acted_on_at_once(organization: Organization) -> None:
    await fault(organization.server, CREATE, {"answerDelaySeconds": PATIENCE_SECONDS}, count=1)
    path = "/v1/orgs/{org}/api-keys/create"
    answer = asyncio.create_task(organization.call("POST", path, {"name": "at once"}))
    await eventually(lambda: names_of_keys(organization), lambda names: "at once" in names)
    assert not answer.done()
    answer.cancel()


async def test_a_late_answer_is_whole(organization: Organization) -> None:
    await fault(organization.server, WHOAMI, {"answerDelaySeconds": 0.05}, count=1)
    answer = await organization.call("GET", "/v1/whoami")
    assert (answer.status, answer.body) == (200, await organization.ok("GET", "/v1/whoami"))


async def test_skip_and_count_choose_which_requests_it_meets(organization: Organization) -> None:
    await fault(organization.server, WHOAMI, {"status": 503}, skip=1, count=2)
    statuses = [(await organization.call("GET", "/v1/whoami")).status for _ in range(5)]
    assert statuses == [200, 503, 503, 200, 200]


async def test_what_is_optional_may_be_null(organization: Organization) -> None:
    nulls = dict.fromkeys(("organizationId", "skip", "count", "probability", "seed"))
    made = await organization.server.ok("POST", "/faults", {"operation": WHOAMI, "effect": {"status": 500}, **nulls})
    assert {key: made[key] for key in nulls} == {**nulls, "skip": 0}
    assert (await organization.call("GET", "/v1/whoami")).status == 500


async def test_without_count_it_stays_until_it_is_removed(organization: Organization) -> None:
    fault_id = await fault(organization.server, WHOAMI, {"status": 503})
    assert [(await organization.call("GET", "/v1/whoami")).status for _ in range(3)] == [503] * 3
    await organization.server.ok("DELETE", f"/faults/{fault_id}")
    assert (await organization.call("GET", "/v1/whoami")).status == 200
    assert (await organization.server.control("DELETE", f"/faults/{fault_id}")).refusal == (404, "not_found")


async def test_the_first_matching_fault_wins(organization: Organization) -> None:
    await fault(organization.server, WHOAMI, {"status": 500}, count=1)
    await fault(organization.server, WHOAMI, {"status": 502}, count=1)
    statuses = [(await organization.call("GET", "/v1/whoami")).status for _ in range(3)]
    assert statuses == [500, 502, 200]


async def test_probability_with_a_seed_repeats_exactly(organization: Organization) -> None:
    runs = []
    for _ in range(2):
        fault_id = await fault(organization.server, WHOAMI, {"status": 503}, probability=0.5, seed=7)
        runs.append([(await organization.call("GET", "/v1/whoami")).status for _ in range(30)])
        await organization.server.ok("DELETE", f"/faults/{fault_id}")
    assert runs[0] == runs[1]
    assert set(runs[0]) == {200, 503}


async def test_a_fault_of_one_organization_leaves_others_alone(server: Server, organization: Organization) -> None:
    other = await server.organization()
    await fault(server, WHOAMI, {"status": 503}, organizationId=organization.id)
    assert (await other.call("GET", "/v1/whoami")).status == 200
    assert (await organization.call("GET", "/v1/whoami")).status == 503


async def test_faults_apply_after_authentication(organization: Organization) -> None:
    await fault(organization.server, WHOAMI, {"status": 503}, count=1)
    unknown = await request("GET", organization.server.url + "/v1/whoami", key="or_nobody")
    assert unknown.status == 401
    assert (await organization.call("GET", "/v1/whoami")).status == 503


async def test_a_template_matches_every_resource_and_no_other_path(organization: Organization) -> None:
    await fault(organization.server, "GET /v1/orgs/{orgId}", {"status": 503})
    assert (await organization.call("GET", "/v1/orgs/{org}")).status == 503
    assert (await organization.call("GET", "/v1/orgs/{org}/api-keys")).status == 200


async def test_faults_are_listed_with_what_they_did(organization: Organization) -> None:
    made = await organization.server.ok(
        "POST", "/faults", {"operation": WHOAMI, "effect": {"status": 503}, "count": 1, "skip": 1}
    )
    assert made["id"]
    for _ in range(3):
        await organization.call("GET", "/v1/whoami")
    (listed,) = (await organization.server.ok("GET", "/faults"))["items"]
    assert {**made, "seen": 3, "applied": 1} == listed


@pytest.mark.parametrize(
    "body",
    [
        {"operation": WHOAMI},
        {"effect": {"status": 500}},
        {"operation": "GET /v1/nothing", "effect": {"status": 500}},
        {"operation": "whoami", "effect": {"status": 500}},
        {"operation": WHOAMI, "effect": {}},
        {"operation": WHOAMI, "effect": {"status": 99}},
        {"operation": WHOAMI, "effect": {"status": 600}},
        {"operation": WHOAMI, "effect": {"status": "500"}},
        {"operation": WHOAMI, "effect": {"status": 500, "delaySeconds": 1}},
        {"operation": WHOAMI, "effect": {"status": 500, "headers": {"X-A": "b\r\nX-C: d"}}},
        {"operation": WHOAMI, "effect": {"status": 500, "headers": {"X A": "b"}}},
        {"operation": WHOAMI, "effect": {"delaySeconds": -1}},
        {"operation": WHOAMI, "effect": {"drop": "during"}},
        {"operation": WHOAMI, "effect": {"truncateBytes": -1}},
        {"operation": WHOAMI, "effect": {"html": False}},
        {"operation": WHOAMI, "effect": {"lose": True}},
        {"operation": WHOAMI, "effect": {"explode": True}},
        {"operation": "webhook", "effect": {"status": 500}},
        {"operation": "webhook", "effect": {"duplicate": 0}},
        {"operation": "webhook", "effect": {"lose": False}},
        {"operation": WHOAMI, "effect": {"status": 500}, "count": 0},
        {"operation": WHOAMI, "effect": {"status": 500}, "skip": -1},
        {"operation": WHOAMI, "effect": {"status": 500}, "probability": 1.5},
        {"operation": WHOAMI, "effect": {"status": 500}, "often": True},
        {"operation": WHOAMI, "effect": "status"},
    ],
)
async def test_a_fault_that_makes_no_sense_is_400(server: Server, body: dict[str, Any]) -> None:
    assert (await server.control("POST", "/faults", body)).refusal == (400, "invalid_request")
    assert await server.ok("GET", "/faults") == {"items": []}


async def test_a_lost_webhook_never_arrives(organization: Organization, receiver: Receiver) -> None:
    await create_webhook(organization, receiver)
    await fault(organization.server, "webhook", {"lose": True}, count=1, organizationId=organization.id)
    lost = await make_event(organization)
    arrived = await make_event(organization)
    await organization.server.advance(86_400)
    (received,) = receiver.received
    assert arrived in received.event["data"].values()
    kept = (await organization.server.ok("GET", "/export"))["tables"]["webhook_deliveries"]
    assert lost not in json.dumps(kept)
    assert lost not in received.event["data"].values()


async def test_a_duplicated_webhook_comes_with_the_same_id(organization: Organization, receiver: Receiver) -> None:
    await create_webhook(organization, receiver)
    await fault(organization.server, "webhook", {"duplicate": 2}, count=1, organizationId=organization.id)
    await make_event(organization)
    await settle(organization)
    assert len(receiver.received) == 3
    assert len({(received.delivery, received.raw) for received in receiver.received}) == 1


async def test_a_delayed_webhook_comes_later_on_the_clouds_clock(
    organization: Organization, receiver: Receiver
) -> None:
    await create_webhook(organization, receiver)
    await fault(organization.server, "webhook", {"delaySeconds": 45}, organizationId=organization.id)
    await make_event(organization)
    await organization.server.advance(44.9)
    assert receiver.received == []
    await organization.server.advance(0.1)
    assert len(receiver.received) == 1


async def test_a_reordered_webhook_waits_until_the_next_went_out(
    organization: Organization, receiver: Receiver
) -> None:
    await create_webhook(organization, receiver)
    await fault(organization.server, "webhook", {"reorder": True}, count=1, organizationId=organization.id)
    first = await make_event(organization)
    await organization.server.advance(600)
    assert receiver.received == []
    second = await make_event(organization)
    await settle(organization)
    order = [json.dumps(received.event["data"]) for received in receiver.received]
    assert [second in order[0], first in order[1]] == [True, True]


async def test_a_fault_on_webhooks_of_one_organization_leaves_others_alone(
    server: Server, organization: Organization, receiver: Receiver
) -> None:
    other = await server.organization()
    await fault(server, "webhook", {"lose": True}, organizationId=other.id)
    await create_webhook(organization, receiver)
    await make_event(organization)
    await settle(organization)
    assert len(receiver.received) == 1
