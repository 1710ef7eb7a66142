"""The OpenAI-style proxy: how to reach it, and what was used each day (section 4, "Account and identity")."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.localcloud.support.inference import CHAT, MESSAGES, call, chat, message, ok
from tests.localcloud.support.people import session_of
from tests.localcloud.support.server import request

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization, Server

PROXY = "/v1/orgs/{org}/ai/proxy"
USAGE = "/v1/orgs/{org}/ai/proxy-usage"
DAY = 86_400
NOTHING = {"requests": 0, "inputTokens": 0, "outputTokens": 0, "costNanoUsd": 0}


def used(requests: int, tokens_in: int, tokens_out: int, price: int = 100) -> dict[str, int]:
    cost = (tokens_in + tokens_out) * price
    return {"requests": requests, "inputTokens": tokens_in, "outputTokens": tokens_out, "costNanoUsd": cost}


async def today(server: Server) -> date:
    return date.fromisoformat((await server.ok("GET", "/clock"))["now"][:10])


async def new_key(organization: Organization, name: str, *scopes: str, **more: object) -> Any:
    body = {"name": name, "scopes": list(scopes), **more}
    return await organization.ok("POST", "/v1/orgs/{org}/api-keys/create", body)


async def test_the_proxy_is_the_inference_api_for_a_client_of_that_style(organization: Organization) -> None:
    shown = await organization.ok("GET", PROXY)
    assert shown["baseUrl"] == organization.server.ready["inferenceUrl"] + "/v1"
    answer = await request("GET", shown["baseUrl"] + "/models", key=organization.api_key)
    assert answer.body["object"] == "list"


async def test_the_proxy_lists_the_keys_that_open_it_without_their_plain_text(organization: Organization) -> None:
    made = await new_key(organization, "proxy", "inference")
    await new_key(organization, "other", "vms:read")
    gone = await new_key(organization, "gone", "inference")
    await organization.ok("DELETE", f"/v1/orgs/{{org}}/api-keys/{gone['id']}")
    await new_key(organization, "short", "inference", expiresInSeconds=60)
    listed = await organization.ok("GET", "/v1/orgs/{org}/api-keys")
    shown = await organization.call("GET", PROXY)
    assert shown.body["keys"] == [key for key in listed if key["name"] in {"default", "proxy", "short"}]
    assert made["key"] not in shown.raw.decode()
    await organization.server.advance(60)
    assert [key["name"] for key in (await organization.ok("GET", PROXY))["keys"]] == ["default", "proxy"]


async def test_every_day_is_listed_with_what_was_used_and_the_totals(organization: Organization) -> None:
    first = await today(organization.server)
    await ok(organization, "POST", CHAT, chat("one two three"))
    await ok(organization, "POST", MESSAGES, message("one two"))
    await organization.server.advance(2 * DAY)
    await ok(organization, "POST", CHAT, chat("one", stream=False))
    days = [used(2, 5, 5), NOTHING, used(1, 1, 1)]
    dates = [(first + timedelta(days=number)).isoformat() for number in range(3)]
    assert await organization.ok("GET", USAGE + "?days=3") == {
        "items": [{"date": date, **day} for date, day in zip(dates, days, strict=True)],
        "totals": used(3, 6, 6),
    }
    assert (await organization.ok("GET", USAGE + "?days=1"))["totals"] == used(1, 1, 1)


async def test_thirty_days_are_shown_unless_told_otherwise(organization: Organization) -> None:
    shown = await organization.ok("GET", USAGE)
    last = await today(organization.server)
    assert [item.pop("date") for item in shown["items"]] == [
        (last - timedelta(days=ago)).isoformat() for ago in reversed(range(30))
    ]
    assert shown == {"items": [NOTHING] * 30, "totals": NOTHING}
    assert len((await organization.ok("GET", USAGE + "?days=365"))["items"]) == 365


async def test_a_day_begins_at_midnight_utc(organization: Organization) -> None:
    server = organization.server
    midnight = (await today(server) + timedelta(days=1)).isoformat()
    await server.ok("POST", "/clock", {"set": f"{midnight}T00:00:00Z"})
    await server.advance(DAY - 0.001)
    await ok(organization, "POST", CHAT, chat("one"))
    await server.advance(0.001)
    await ok(organization, "POST", CHAT, chat("one two"))
    shown = (await organization.ok("GET", USAGE + "?days=2"))["items"]
    assert shown[0] == {"date": midnight, **used(1, 1, 1)}
    assert shown[1]["requests"] == 1


async def test_a_stream_counts_when_it_is_whole_and_a_refusal_not_at_all(organization: Organization) -> None:
    for model in ("refuse", "busy", "down", "full", "nothing"):
        await call(organization, "POST", CHAT, chat("one two", model))
    assert (await organization.ok("GET", USAGE + "?days=1"))["totals"] == NOTHING
    assert (await call(organization, "POST", CHAT, chat("one two", stream=True))).status == 200
    assert (await organization.ok("GET", USAGE + "?days=1"))["totals"] == used(1, 2, 2)
    fault = {
        "operation": "POST /v1/chat/completions",
        "organizationId": organization.id,
        "effect": {"cutStreamAfter": 1},
    }
    made = await organization.server.ok("POST", "/faults", fault)
    await call(organization, "POST", CHAT, chat("one two", stream=True))
    await organization.server.ok("DELETE", f"/faults/{made['id']}")
    assert (await organization.ok("GET", USAGE + "?days=1"))["totals"] == used(1, 2, 2)


async def test_records_of_batches_count_at_their_price(organization: Organization) -> None:
    records = [
        {"custom_id": str(number), "method": "POST", "url": CHAT, "body": chat("one two three")} for number in range(3)
    ]
    await ok(organization, "POST", "/v1/batches", {"endpoint": CHAT, "completion_window": "24h", "requests": records})
    await organization.server.advance(60)
    assert (await organization.ok("GET", USAGE + "?days=2"))["totals"] == used(3, 9, 9, price=50)


async def test_usage_is_each_organizations_own(server: Server, organization: Organization) -> None:
    other = await server.organization()
    await ok(organization, "POST", CHAT, chat("one"))
    assert (await other.ok("GET", USAGE))["totals"] == NOTHING
    for path in (PROXY, USAGE):
        answer = await other.call("GET", path.replace("{org}", organization.id))
        assert answer.refusal == (403, "forbidden")


@pytest.mark.parametrize("days", ["0", "-1", "366", "x", "1.5", "", "9" * 30, "1e3", "%00"])
async def test_days_out_of_bounds_are_400(organization: Organization, days: str) -> None:
    answer = await organization.call("GET", f"{USAGE}?days={days}")
    assert answer.refusal == (400, "invalid_request")
    assert answer.body["error"].startswith("days: ")


async def test_usage_survives_an_export(start_server: Any, organization: Organization) -> None:
    await ok(organization, "POST", CHAT, chat("one"))
    shown = await organization.ok("GET", USAGE)
    elsewhere = start_server("--ephemeral", "--clock", "frozen")
    await elsewhere.ok("POST", "/import", await organization.server.ok("GET", "/export"))
    url = elsewhere.url + USAGE.replace("{org}", organization.id)
    assert (await request("GET", url, key=organization.api_key)).body == shown


@pytest.mark.parametrize("path", [PROXY, USAGE])
async def test_the_proxy_takes_a_key_with_its_scope_or_any_role(organization: Organization, path: str) -> None:
    for scope in ("clusters:read", "clusters:write", "vms:read", "vms:write", "billing:read", "org:write"):
        key = (await new_key(organization, "narrow", scope))["key"]
        assert (await organization.call("GET", path, key=key)).refusal == (403, "forbidden"), scope
    assert (
        await organization.call("GET", path, key=(await new_key(organization, "i", "inference"))["key"])
    ).status == 200
    viewer = await session_of(organization, "viewer")
    assert (await viewer.call("GET", path.replace("{org}", organization.id))).status == 200
    assert (await organization.call("POST", path)).refusal == (405, "method_not_allowed")
