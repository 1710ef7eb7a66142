"""Organizations: made by people, shown, changed (sections 2 and 4, "Organizations")."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.localcloud.support.inference import CHAT, chat
from tests.localcloud.support.inference import ok as inference_ok
from tests.localcloud.support.past import keep_the_past
from tests.localcloud.support.people import session_of, sign_up
from tests.localcloud.support.server import request

if TYPE_CHECKING:
    from pathlib import Path

    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Answer, Organization, Server


async def test_whoever_creates_an_organization_owns_it(server: Server) -> None:
    person = await sign_up(server)
    body = {"name": "Acme", "slug": "acme-1", "billingEmail": "bills@acme.example"}
    created = await person.ok("POST", "/v1/orgs", body)
    now = (await server.ok("GET", "/clock"))["now"]
    assert created.pop("id").startswith("org_")
    assert created == {**body, "createdAt": now}
    (membership,) = (await person.ok("GET", "/v1/me"))["memberships"]
    assert (membership["role"], membership["name"]) == ("owner", "Acme")
    assert await person.ok("GET", f"/v1/orgs/{membership['organizationId']}/api-keys") == []
    balance = await person.ok("GET", f"/v1/orgs/{membership['organizationId']}/billing/balance")
    assert (balance["balanceCents"], balance["transactions"]) == (0, [])


async def test_an_organization_needs_a_name_only(server: Server) -> None:
    person = await sign_up(server)
    for body in ({"name": "Acme"}, {"name": "Acme", "slug": None, "billingEmail": None}):
        assert sorted(await person.ok("POST", "/v1/orgs", body)) == ["createdAt", "id", "name"]


async def test_a_slug_is_taken_once_over_all_organizations(server: Server) -> None:
    first, second = await sign_up(server), await sign_up(server)
    await first.ok("POST", "/v1/orgs", {"name": "One", "slug": "taken"})
    for person in (first, second):
        answer = await person.call("POST", "/v1/orgs", {"name": "Two", "slug": "taken"})
        assert answer.refusal == (409, "conflict")
    assert (await second.ok("GET", "/v1/me"))["memberships"] == []


async def test_a_slug_wanted_by_many_at_once_goes_to_one(server: Server) -> None:
    person = await sign_up(server)
    body = {"name": "Race", "slug": "race"}
    answers = await asyncio.gather(*(person.call("POST", "/v1/orgs", body) for _ in range(8)))
    assert sorted(answer.status for answer in answers) == [200, *[409] * 7]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": None},
        {"name": ""},
        {"name": 7},
        {"name": ["Acme"]},
        {"name": "x" * 201},
        {"name": "a\tb"},
        {"name": "Acme", "slug": ""},
        {"name": "Acme", "slug": "Acme"},
        {"name": "Acme", "slug": "a b"},
        {"name": "Acme", "slug": "-a"},
        {"name": "Acme", "slug": "x" * 64},
        {"name": "Acme", "slug": 7},
        {"name": "Acme", "billingEmail": ""},
        {"name": "Acme", "billingEmail": "nobody"},
        {"name": "Acme", "billingEmail": "a@b@c"},
        {"name": "Acme", "billingEmail": True},
        {"name": "Acme", "billingEmail": "a" * 255 + "@b"},
        [],
        "Acme",
        None,
    ],
)
async def test_an_organization_that_makes_no_sense_is_400(server: Server, body: object) -> None:
    person = await sign_up(server)
    assert (await person.call("POST", "/v1/orgs", body)).refusal == (400, "invalid_request")
    assert (await person.ok("GET", "/v1/me"))["memberships"] == []


async def test_a_change_leaves_what_is_absent(organization: Organization) -> None:
    before = await organization.ok("GET", "/v1/orgs/{org}")
    renamed = await organization.ok("PATCH", "/v1/orgs/{org}", {"name": "Renamed"})
    assert renamed == {**before, "name": "Renamed"}
    billed = await organization.ok("PATCH", "/v1/orgs/{org}", {"billingEmail": "b@c.example", "name": None})
    assert billed == {**renamed, "billingEmail": "b@c.example"}
    assert await organization.ok("PATCH", "/v1/orgs/{org}", {}) == billed
    assert await organization.ok("GET", "/v1/orgs/{org}") == billed
    assert (await organization.ok("GET", "/v1/whoami"))["organizationName"] == "Renamed"


async def test_a_slug_cannot_be_changed_and_is_flagged_as_unread(organization: Organization) -> None:
    before = await organization.ok("GET", "/v1/orgs/{org}")
    assert await organization.ok("PATCH", "/v1/orgs/{org}", {"slug": "other"}) == before
    logged = (await organization.server.ok("GET", f"/requests?organizationId={organization.id}"))["items"]
    assert logged[-1]["unreadFields"] == ["slug"]


async def test_the_monthly_limit_is_set_and_taken_away(organization: Organization) -> None:
    async def limit() -> object:
        return (await organization.ok("GET", "/v1/orgs/{org}/billing/balance"))["monthlySpendLimitCents"]

    assert await limit() is None
    shown = await organization.ok("PATCH", "/v1/orgs/{org}", {"monthlySpendLimitCents": 0})
    assert shown["monthlySpendLimitCents"] == await limit() == 0
    refused = await organization.call("POST", "/v1/pods", {"image": "a", "gpuModelId": "h100"})
    assert refused.refusal == (402, "SPEND_LIMIT_REACHED")
    assert (await organization.ok("PATCH", "/v1/orgs/{org}", {"name": "Same"}))["monthlySpendLimitCents"] == 0
    assert "monthlySpendLimitCents" not in await organization.ok(
        "PATCH", "/v1/orgs/{org}", {"monthlySpendLimitCents": None}
    )
    assert await limit() is None


@pytest.mark.parametrize(
    "body",
    [
        {"name": ""},
        {"name": 7},
        {"name": "x" * 201},
        {"billingEmail": "nobody"},
        {"billingEmail": ""},
        {"billingEmail": ["a@b.example"]},
        {"monthlySpendLimitCents": -1},
        {"monthlySpendLimitCents": 1.5},
        {"monthlySpendLimitCents": "5"},
        {"monthlySpendLimitCents": True},
        {"monthlySpendLimitCents": 10**18},
        {"monthlySpendLimitCents": 10**30},
        {"name": "fine", "billingEmail": "nobody"},
        [],
        None,
    ],
)
async def test_a_change_that_makes_no_sense_is_400_and_changes_nothing(
    organization: Organization, body: object
) -> None:
    before = await organization.ok("GET", "/v1/orgs/{org}")
    assert (await organization.call("PATCH", "/v1/orgs/{org}", body)).refusal == (400, "invalid_request")
    assert await organization.ok("GET", "/v1/orgs/{org}") == before


async def test_another_organization_can_be_neither_read_nor_changed(server: Server, organization: Organization) -> None:
    other = await server.organization()
    owner = await session_of(organization)
    for path in (f"/v1/orgs/{other.id}", "/v1/orgs/org_nowhere", "/v1/orgs/" + "x" * 5_000):
        for method, body in (("GET", None), ("PATCH", {"name": "Mine"})):
            assert (await organization.call(method, path, body)).refusal == (403, "forbidden")
        assert (await owner.call("PATCH", path, {"name": "Mine"})).refusal == (403, "forbidden")
    assert (await owner.call("GET", f"/v1/orgs/{other.id}")).refusal == (403, "forbidden")
    assert (await other.ok("GET", "/v1/orgs/{org}"))["name"] == "Test"


async def test_a_session_that_asks_for_no_organization_is_404(organization: Organization) -> None:
    for person in (await session_of(organization), await sign_up(organization.server)):
        for path in ("/v1/orgs/org_nowhere", "/v1/orgs/" + "x" * 5_000):
            assert (await person.call("GET", path)).refusal == (404, "not_found")


async def test_what_an_organization_does_is_logged_and_faulted_under_its_id(server: Server) -> None:
    person = await sign_up(server)
    first, second = [(await person.ok("POST", "/v1/orgs", {"name": name}))["id"] for name in ("one", "two")]
    fault = {"operation": "GET /v1/orgs/{orgId}", "organizationId": second, "effect": {"status": 503}}
    made = await server.ok("POST", "/faults", fault)
    await person.ok("GET", f"/v1/orgs/{first}")
    assert (await person.call("GET", f"/v1/orgs/{second}")).status == 503
    await server.ok("DELETE", f"/faults/{made['id']}")
    for organization_id in (first, second):
        logged = (await server.ok("GET", f"/requests?organizationId={organization_id}"))["items"]
        assert logged[-1]["path"] == f"/v1/orgs/{organization_id}"


async def test_a_suspended_organization_is_refused_by_the_inference_api_alone(organization: Organization) -> None:
    for suspended in (True, "review"):
        await organization.server.ok("PATCH", f"/orgs/{organization.id}", {"suspended": suspended})
        await organization.ok("GET", "/v1/whoami")
        await organization.ok("GET", "/v1/orgs/{org}/members")
        key = await organization.ok("POST", "/v1/orgs/{org}/api-keys/create", {"name": "k"})
        await organization.ok("DELETE", f"/v1/orgs/{{org}}/api-keys/{key['id']}")
        await (await session_of(organization)).ok("GET", "/v1/me")


async def test_what_was_not_there_yet_is_absent_in_a_stale_read(server: Server) -> None:
    await keep_the_past(server)
    organization = await server.organization()
    await inference_ok(organization, "POST", CHAT, chat("hello"))

    async def stale(path: str) -> Answer:
        fault = {"operation": f"GET {path.replace('{org}', '{orgId}')}", "count": 1, "effect": {"staleSeconds": 30}}
        await organization.server.ok("POST", "/faults", fault)
        return await organization.call("GET", path)

    assert (await stale("/v1/orgs/{org}")).refusal == (404, "not_found")
    assert (await stale("/v1/orgs/{org}/members")).body == {"items": []}
    usage = "/v1/orgs/{org}/ai/proxy-usage"
    assert (await organization.ok("GET", usage))["totals"]["requests"] == 1
    assert (await stale(usage)).body["totals"]["requests"] == 0
    await server.ok("DELETE", "/faults")


async def test_stale_reads_of_an_organization_and_its_people_are_of_then(organization: Organization) -> None:
    server, person = organization.server, await session_of(organization, "member")
    await keep_the_past(server)
    paths = ("/v1/orgs/{org}", "/v1/orgs/{org}/members")
    await server.advance(60)
    before = [await organization.ok("GET", path) for path in paths]
    me = await person.ok("GET", "/v1/me")
    await server.advance(60)
    await organization.ok("PATCH", "/v1/orgs/{org}", {"name": "Renamed"})
    await person.ok("PATCH", "/v1/me/profile", {"fullName": "Ada"})
    await organization.ok("PATCH", f"/v1/orgs/{{org}}/members/{person.id}", {"role": "viewer"})
    after = [await organization.ok("GET", path) for path in paths]
    assert all(a != b for a, b in zip(after, before, strict=True))
    for operation in ("GET /v1/orgs/{orgId}", "GET /v1/orgs/{orgId}/members", "GET /v1/me"):
        await server.ok("POST", "/faults", {"operation": operation, "effect": {"staleSeconds": 30}})
    assert [await organization.ok("GET", path) for path in paths] == before
    assert await person.ok("GET", "/v1/me") == me
    await server.ok("DELETE", "/faults")


async def test_people_survive_a_kill_and_an_export(start_server: StartServer, tmp_path: Path) -> None:
    arguments = ("--state", str(tmp_path / "state"), "--clock", "frozen")
    first = start_server(*arguments)
    person = await sign_up(first)
    made = await person.ok("POST", "/v1/orgs", {"name": "Acme", "slug": "acme"})
    await person.ok("PATCH", "/v1/me/profile", {"fullName": "Ada", "defaultOrganizationId": made["id"]})
    me = await person.ok("GET", "/v1/me")
    first.kill()
    second = start_server(*arguments)
    elsewhere = start_server("--ephemeral", "--clock", "frozen")
    await elsewhere.ok("POST", "/import", await second.ok("GET", "/export"))
    for server in (second, elsewhere):
        moved = type(person)(server, person.id, person.email, person.token)
        assert await moved.ok("GET", "/v1/me") == me
        assert (await moved.call("POST", "/v1/orgs", {"name": "Other", "slug": "acme"})).status == 409


async def test_openapi_says_what_answers_about_people_always_have(server: Server) -> None:
    schemas = (await request("GET", server.url + "/openapi.json")).body["components"]["schemas"]
    required = {
        "Joined": ["organizationId", "role"],
        "Me": ["user", "memberships"],
        "Membership": ["organizationId", "role", "name"],
        "User": ["id", "email"],
        "Organization": ["id", "name", "createdAt"],
        "Member": ["userId", "email", "role", "joinedAt"],
        "AiProxy": ["baseUrl", "keys"],
        "ProxyUsage": ["items", "totals"],
        "ProxyUsageTotals": ["requests", "inputTokens", "outputTokens", "costNanoUsd"],
        "ProxyUsageDay": ["requests", "inputTokens", "outputTokens", "costNanoUsd", "date"],
    }
    assert {name: schemas[name]["required"] for name in required} == required
    assert not [name for name in required if "null" in str(schemas[name])]
    assert {"type": "null"} in schemas["OrganizationUpdate"]["properties"]["monthlySpendLimitCents"]["anyOf"]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [("GET", "/v1/orgs", {"POST"}), ("PUT", "/v1/orgs/{org}", {"GET", "PATCH"}), ("DELETE", "/v1/orgs", {"POST"})],
)
async def test_methods_of_organizations_that_are_not_served_are_405(
    organization: Organization, method: str, path: str, allowed: set[str]
) -> None:
    answer = await organization.call(method, path)
    assert answer.refusal == (405, "method_not_allowed")
    assert set(answer.headers["allow"].split(", ")) == allowed
