"""Provisioning tokens, and the machines that enrol with them."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.localcloud.support.provider import community_node, enrol, new_token, node_status, provider_nodes
from tests.localcloud.support.workloads import free_gpus, new_pod, set_node, set_organization

if TYPE_CHECKING:
    from pathlib import Path

    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Organization

TOKENS = "/v1/orgs/{org}/provider/tokens"
HOUR = 3600
BAD_FIELDS: list[tuple[str, object]] = [
    ("name", ""),
    ("name", 1),
    ("name", "x" * 64),
    ("name", "a\nb"),
    ("expiresInHours", 0),
    ("expiresInHours", -1),
    ("expiresInHours", 8761),
    ("expiresInHours", "24"),
    ("expiresInHours", 1.5),
    ("expiresInHours", True),
    ("expiresInHours", 10**30),
    ("nodeType", ""),
    ("nodeType", {}),
    ("maxNodes", -1),
    ("maxNodes", 1_000_001),
    ("maxNodes", "1"),
    ("maxNodes", 2**64),
    ("nodePool", ""),
    ("nodePool", ["community"]),
    ("nodePool", "x" * 64),
]


async def tokens(provider: Organization) -> list[Any]:
    items: list[Any] = (await provider.ok("GET", TOKENS))["items"]
    return items


async def refused(provider: Organization, token: str, **fields: object) -> tuple[int, str]:
    """How a machine is refused, which brings in nothing."""
    before = await provider_nodes(provider)
    refusal = (await enrol(provider, token, **fields)).refusal
    assert await provider_nodes(provider) == before
    return refusal


async def test_a_token_is_shown_once_and_listed_without_its_plain_text(provider: Organization) -> None:
    created_at = await provider.server.advance(0)
    body = {"name": "racks", "expiresInHours": 2, "nodeType": "hgx", "maxNodes": 3, "nodePool": "eu-racks"}
    made = await provider.ok("POST", TOKENS, body)
    expires_at = await provider.server.advance(2 * HOUR)
    plaintext = made.pop("token")
    assert len(plaintext) > 40
    assert made == {
        "id": made["id"],
        "name": "racks",
        "nodeType": "hgx",
        "nodePool": "eu-racks",
        "maxNodes": 3,
        "usedNodes": 0,
        "expiresAt": expires_at,
        "createdAt": created_at,
    }
    assert await tokens(provider) == [made]
    state = json.dumps(await provider.server.ok("GET", "/export"))
    assert (plaintext in state, made["id"] in state) == (False, True)


@pytest.mark.parametrize("sent", [{}, dict.fromkeys(["name", "expiresInHours", "nodeType", "maxNodes", "nodePool"])])
async def test_every_field_of_a_token_may_be_absent(provider: Organization, sent: dict[str, None]) -> None:
    made = await provider.ok("POST", TOKENS, sent)
    assert made["name"].startswith("token-")
    assert (made["nodeType"], made["nodePool"], made["maxNodes"]) == (None, "community", 0)
    assert made["expiresAt"] == await provider.server.advance(24 * HOUR)


async def test_names_of_tokens_need_not_differ(provider: Organization) -> None:
    first, second = [await provider.ok("POST", TOKENS, {"name": "same"}) for _ in range(2)]
    assert first["id"] != second["id"]


async def test_a_token_needs_no_body(provider: Organization) -> None:
    assert (await provider.call("POST", TOKENS)).status == 200


@pytest.mark.parametrize(("field", "value"), BAD_FIELDS)
async def test_a_token_that_makes_no_sense_is_400(provider: Organization, field: str, value: object) -> None:
    assert (await provider.call("POST", TOKENS, {field: value})).refusal == (400, "invalid_request")
    assert await tokens(provider) == []


async def test_only_providers_have_tokens(organization: Organization) -> None:
    assert (await organization.call("POST", TOKENS, {"name": "racks"})).refusal == (403, "forbidden")
    assert (await organization.call("GET", TOKENS)).refusal == (403, "forbidden")
    assert (await organization.call("DELETE", TOKENS + "/ptok_x")).refusal == (404, "not_found")


async def test_a_machine_enrols_and_everybody_may_use_it(provider: Organization, organization: Organization) -> None:
    token = await new_token(provider, nodePool="eu-racks")
    node = (await enrol(provider, token["token"], location="sjc1")).body
    assert (node["providerId"], node["organizationId"], node["nodePool"]) == (provider.id, None, "eu-racks")
    assert await provider_nodes(provider) == [
        {
            "id": node["id"],
            "status": "online",
            "gpus": [{"id": f"{node['id']}-gpu{unit}", "gpuModelId": "h100"} for unit in (0, 1)],
            "workloads": 0,
            "location": "sjc1",
            "region": "us-west",
            "nodePool": "eu-racks",
            "createdAt": await provider.server.advance(0),
        }
    ]
    assert [await free_gpus(who) for who in (provider, organization)] == [2, 2]
    await new_pod(organization, gpuCount=2)
    assert [await free_gpus(who) for who in (provider, organization)] == [0, 0]


async def test_a_provider_may_keep_what_it_enrols_to_itself(provider: Organization, organization: Organization) -> None:
    token = await new_token(provider)
    node = (await enrol(provider, token["token"], orgId=provider.id)).body
    assert (node["providerId"], node["organizationId"]) == (provider.id, provider.id)
    assert [await free_gpus(who) for who in (provider, organization)] == [2, 0]
    assert await refused(provider, token["token"], orgId=organization.id) == (400, "invalid_request")
    assert (await tokens(provider))[0]["usedNodes"] == 1


async def test_a_quota_counts_every_machine_that_ever_enrolled(provider: Organization) -> None:
    token = await new_token(provider, maxNodes=2)
    node_ids = [(await enrol(provider, token["token"])).body["id"] for _ in range(2)]
    await set_node(provider, node_ids[0], removed=True)
    assert (await tokens(provider))[0]["usedNodes"] == 2
    assert await refused(provider, token["token"]) == (409, "conflict")
    assert (await tokens(provider))[0]["usedNodes"] == 2


async def test_the_last_place_of_a_quota_goes_to_one_of_many_at_once(provider: Organization) -> None:
    token = await new_token(provider, maxNodes=1)
    answers = await asyncio.gather(*(enrol(provider, token["token"]) for _ in range(8)))
    assert sorted(answer.status for answer in answers) == [200] + [409] * 7
    assert len(await provider_nodes(provider)) == 1


async def test_without_a_quota_any_number_enrols(provider: Organization) -> None:
    token = await new_token(provider, maxNodes=0)
    assert [(await enrol(provider, token["token"])).status for _ in range(5)] == [200] * 5
    assert (await tokens(provider))[0]["usedNodes"] == 5


async def test_a_machine_that_is_refused_uses_nothing_up(provider: Organization) -> None:
    token = await new_token(provider, maxNodes=1)
    assert await refused(provider, token["token"], gpuModelId="h9000") == (400, "invalid_request")
    assert await refused(provider, token["token"], gpuCount=0) == (400, "invalid_request")
    assert await refused(provider, token["token"], orgId="none") == (404, "not_found")
    assert (await tokens(provider))[0]["usedNodes"] == 0
    assert (await enrol(provider, token["token"])).status == 200


async def test_a_token_expires_on_the_clouds_clock(provider: Organization) -> None:
    token = await new_token(provider, expiresInHours=1)
    await provider.server.advance(HOUR - 1)
    assert (await enrol(provider, token["token"])).status == 200
    await provider.server.advance(1)
    assert await refused(provider, token["token"]) == (410, "gone")
    assert [shown["id"] for shown in await tokens(provider)] == [token["id"]], "it stays in the list with its expiry"


async def test_a_revoked_token_enrols_nothing_and_its_nodes_stay(provider: Organization) -> None:
    token = await new_token(provider)
    node_id = (await enrol(provider, token["token"])).body["id"]
    path = f"{TOKENS}/{token['id']}"
    assert (await provider.call("DELETE", path)).status == 204
    assert await refused(provider, token["token"]) == (410, "gone")
    assert await tokens(provider) == []
    assert (await provider.call("DELETE", path)).refusal == (404, "not_found")
    assert await node_status(provider, node_id) == "online"


@pytest.mark.parametrize("token", ["prov_unknown", "x", "💥"])
async def test_an_unknown_token_is_404(provider: Organization, token: str) -> None:
    assert await refused(provider, token) == (404, "not_found")


async def test_the_tokens_of_another_provider_are_out_of_reach(
    provider: Organization, organization: Organization
) -> None:
    token = await new_token(provider)
    await set_organization(organization, provider=True)
    assert await tokens(organization) == []
    assert (await organization.call("DELETE", f"{TOKENS}/{token['id']}")).refusal == (404, "not_found")
    path = f"/v1/orgs/{provider.id}/provider/tokens"
    for method, suffix in (("GET", ""), ("POST", ""), ("DELETE", f"/{token['id']}")):
        assert (await organization.call(method, path + suffix)).refusal == (403, "forbidden")
    assert (await enrol(provider, token["token"])).status == 200


async def test_tokens_and_nodes_survive_a_kill(start_server: StartServer, tmp_path: Path) -> None:
    arguments = ("--state", str(tmp_path), "--clock", "frozen")
    provider = await start_server(*arguments).organization()
    await set_organization(provider, provider=True)
    token = await new_token(provider, maxNodes=2)
    node_id = (await enrol(provider, token["token"])).body["id"]
    await provider.ok("PATCH", f"/v1/orgs/{{org}}/provider/nodes/{node_id}", {"status": "draining"})
    before = (await tokens(provider), await provider_nodes(provider))
    provider.server.kill()
    provider.server.start()
    assert (await tokens(provider), await provider_nodes(provider)) == before
    assert await node_status(provider, node_id) == "draining"
    assert (await enrol(provider, token["token"])).status == 200
    assert await refused(provider, token["token"]) == (409, "conflict")


async def test_stats_count_nodes_gpus_and_tokens_once_each(provider: Organization) -> None:
    online, silent, draining, maintained, removed = [await community_node(provider) for _ in range(5)]
    await set_node(provider, silent, reporting=False)
    for node_id, status in ((draining, "draining"), (maintained, "maintenance"), (removed, "removed")):
        await provider.ok("PATCH", f"/v1/orgs/{{org}}/provider/nodes/{node_id}", {"status": status})
    await provider.ok("POST", "/v1/orgs/{org}/vms/create", {"name": "v", "gpuModelId": "h100", "nodeId": online})
    used_up = await new_token(provider, maxNodes=1)
    await enrol(provider, used_up["token"], gpuCount=8)
    revoked = await new_token(provider)
    await provider.call("DELETE", f"{TOKENS}/{revoked['id']}")
    await new_token(provider, expiresInHours=1)
    await provider.server.advance(HOUR)
    assert await provider.ok("GET", "/v1/orgs/{org}/provider/stats") == {
        "nodes": {
            "total": 5,
            "online": 2,
            "offline": 1,
            "maintenance": 1,
            "draining": 1,
            "removed": 1,
            "totalGpus": 16,
            "claimedGpus": 1,
        },
        "tokens": {"total": 8, "active": 5, "usedUp": 1, "expired": 1, "revoked": 1},
    }


async def test_whoever_is_no_provider_has_stats_of_nothing(organization: Organization) -> None:
    stats = await organization.ok("GET", "/v1/orgs/{org}/provider/stats")
    assert {*stats["nodes"].values(), *stats["tokens"].values()} == {0}
