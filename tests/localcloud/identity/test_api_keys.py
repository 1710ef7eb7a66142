"""API keys: what a create takes, what it shows once, and when a key stops (sections 2 and 5)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.localcloud.support.people import session_of
from tests.localcloud.support.server import request

if TYPE_CHECKING:
    from pathlib import Path

    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Organization

KEYS = "/v1/orgs/{org}/api-keys"
CREATE = "/v1/orgs/{org}/api-keys/create"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": None},
        {"name": ""},
        {"name": 7},
        {"name": ["k"]},
        {"name": "x" * 201},
        {"name": "a\u202eb"},
        {"name": "k", "scopes": "vms:read"},
        {"name": "k", "scopes": [7]},
        {"name": "k", "scopes": [None]},
        {"name": "k", "scopes": {"vms:read": True}},
        {"name": "k", "scopes": [""]},
        {"name": "k", "scopes": ["VMS:READ"]},
        {"name": "k", "scopes": ["vms:read", "vms:destroy"]},
        {"name": "k", "expiresInSeconds": "60"},
        {"name": "k", "expiresInSeconds": 1.5},
        {"name": "k", "expiresInSeconds": True},
        {"name": "k", "expiresInSeconds": 2**63},
        {"name": "k", "expiresInSeconds": -(2**63) - 1},
        [],
        "k",
        None,
    ],
)
async def test_a_key_that_makes_no_sense_is_400_and_makes_nothing(organization: Organization, body: object) -> None:
    before = await organization.ok("GET", KEYS)
    assert (await organization.call("POST", CREATE, body)).refusal == (400, "invalid_request")
    assert [key["id"] for key in await organization.ok("GET", KEYS)] == [key["id"] for key in before]


async def test_scopes_given_twice_count_once(organization: Organization) -> None:
    created = await organization.ok("POST", CREATE, {"name": "k", "scopes": ["vms:write", "vms:read", "vms:read"]})
    assert created["scopes"] == ["vms:write", "vms:read"]


async def test_unknown_fields_of_a_create_are_accepted_and_flagged(organization: Organization) -> None:
    await organization.ok("POST", CREATE, {"name": "k", "expires_in_seconds": 1, "role": "admin"})
    logged = (await organization.server.ok("GET", f"/requests?organizationId={organization.id}"))["items"]
    assert sorted(logged[-1]["unreadFields"]) == ["expires_in_seconds", "role"]


async def test_names_of_keys_need_not_differ(organization: Organization) -> None:
    first, second = [await organization.ok("POST", CREATE, {"name": "same"}) for _ in range(2)]
    assert first["id"] != second["id"]
    assert first["key"] != second["key"]


@pytest.mark.parametrize("role", ["owner", "admin"])
async def test_a_sessions_key_has_every_scope_unless_told_otherwise(organization: Organization, role: str) -> None:
    person = await session_of(organization, role)
    path = CREATE.replace("{org}", organization.id)
    created = await person.ok("POST", path, {"name": "k"})
    assert created["scopes"] == [
        "clusters:read",
        "clusters:write",
        "vms:read",
        "vms:write",
        "inference",
        "billing:read",
        "org:write",
    ]
    assert (await person.ok("POST", path, {"name": "k", "scopes": ["inference"]}))["scopes"] == ["inference"]


async def test_a_key_with_an_empty_list_of_scopes_may_nothing_but_ask_who_it_is(organization: Organization) -> None:
    created = await organization.ok("POST", CREATE, {"name": "k", "scopes": []})
    assert created["scopes"] == []
    bare = replace(organization, api_key=created["key"])
    assert (await bare.ok("GET", "/v1/whoami"))["scopes"] == []
    for path in ("", "/quotas", "/clusters", "/api-keys", "/webhooks"):
        assert (await bare.call("GET", "/v1/orgs/{org}" + path)).refusal == (403, "forbidden")


async def test_a_key_makes_keys_of_its_own_organization_alone(organization: Organization) -> None:
    other = await organization.server.organization()
    for method, path, body in (
        ("GET", KEYS, None),
        ("POST", CREATE, {"name": "k"}),
        ("DELETE", KEYS + "/key_x", None),
    ):
        answer = await organization.call(method, path.replace("{org}", other.id), body)
        assert answer.refusal == (403, "forbidden")


async def test_plain_texts_are_neither_listed_nor_logged_nor_kept(organization: Organization) -> None:
    created = await organization.ok("POST", CREATE, {"name": "secret"})
    legacy = await organization.server.ok("POST", f"/orgs/{organization.id}/legacy-key")
    for plain in (created["key"], legacy["apiKey"]):
        await organization.ok("GET", "/v1/whoami", key=plain)
        assert plain not in json.dumps(await organization.ok("GET", KEYS))
        assert plain not in json.dumps(await organization.server.ok("GET", "/export"))
        assert plain not in json.dumps(await organization.server.ok("GET", "/requests"))
        assert plain not in organization.server.log


async def test_a_legacy_key_is_listed_by_its_prefix_and_can_be_revoked(organization: Organization) -> None:
    made = await organization.server.ok("POST", f"/orgs/{organization.id}/legacy-key")
    listed = next(key for key in await organization.ok("GET", KEYS) if key["keyPrefix"].startswith("vl_"))
    assert made["apiKey"].startswith(listed["keyPrefix"])
    assert "expiresAt" not in listed
    assert (await organization.call("DELETE", f"{KEYS}/{listed['id']}")).status == 204
    assert (await organization.call("GET", "/v1/whoami", key=made["apiKey"])).refusal == (401, "unauthorized")


async def test_a_key_may_revoke_itself(organization: Organization) -> None:
    created = await organization.ok("POST", CREATE, {"name": "k"})
    assert (await organization.call("DELETE", f"{KEYS}/{created['id']}", key=created["key"])).status == 204
    again = await organization.call("DELETE", f"{KEYS}/{created['id']}", key=created["key"])
    assert again.refusal == (401, "unauthorized")


@pytest.mark.parametrize("key_id", ["key_nobody", "%00", "%ff", "x" * 5_000, "or_x"])
async def test_a_key_that_is_not_there_is_404(organization: Organization, key_id: str) -> None:
    assert (await organization.call("DELETE", f"{KEYS}/{key_id}")).refusal == (404, "not_found")


async def test_last_use_is_at_most_a_minute_behind(organization: Organization) -> None:
    created = await organization.ok("POST", CREATE, {"name": "k"})

    async def last_used() -> str:
        return str(next(key for key in await organization.ok("GET", KEYS) if key["id"] == created["id"])["lastUsedAt"])

    await organization.ok("GET", "/v1/whoami", key=created["key"])
    first = await last_used()
    later = await organization.server.advance(60)
    await organization.ok("GET", "/v1/whoami", key=created["key"])
    assert first < await last_used() == later


async def test_keys_of_both_prefixes_and_their_ends_survive_a_kill(start_server: StartServer, tmp_path: Path) -> None:
    arguments = ("--state", str(tmp_path / "state"), "--clock", "frozen")
    first = start_server(*arguments)
    organization = await first.organization()
    legacy = (await first.ok("POST", f"/orgs/{organization.id}/legacy-key"))["apiKey"]
    revoked = await organization.ok("POST", CREATE, {"name": "revoked"})
    short = await organization.ok("POST", CREATE, {"name": "short", "expiresInSeconds": 60})
    await organization.ok("DELETE", f"{KEYS}/{revoked['id']}")
    first.kill()
    second = start_server(*arguments)

    async def status(key: str) -> int:
        return (await request("GET", second.url + "/v1/whoami", key=key)).status

    keys = (organization.api_key, legacy, short["key"], revoked["key"])
    assert [await status(key) for key in keys] == [200, 200, 200, 401]
    await second.advance(60)
    assert [await status(key) for key in keys] == [200, 200, 401, 401]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [("POST", KEYS, "GET"), ("GET", CREATE, "POST"), ("GET", KEYS + "/key_x", "DELETE")],
)
async def test_methods_of_keys_that_are_not_served_are_405(
    organization: Organization, method: str, path: str, allowed: str
) -> None:
    answer = await organization.call(method, path)
    assert answer.refusal == (405, "method_not_allowed")
    assert "allow" in answer.headers
    assert allowed in answer.headers["allow"]


@pytest.mark.parametrize(("seconds", "status"), [(99, 200), (100, 200), (101, 403), (0, 403), (-1, 403), (None, 403)])
async def test_a_key_makes_no_key_that_outlives_it(
    organization: Organization, seconds: int | None, status: int
) -> None:
    mother = await organization.ok("POST", CREATE, {"name": "mother", "expiresInSeconds": 100})
    before = await organization.ok("GET", KEYS)
    answer = await organization.call("POST", CREATE, {"name": "k", "expiresInSeconds": seconds}, key=mother["key"])
    assert answer.status == status
    if status == 403:
        assert answer.refusal == (403, "forbidden")
        listed = next(key for key in before if key["id"] == mother["id"])
        assert f"this key expires at {listed['expiresAt']}" in answer.body["error"]
        assert [key["id"] for key in await organization.ok("GET", KEYS)] == [key["id"] for key in before]
    else:
        await organization.server.advance(100)
        assert (await organization.call("GET", "/v1/whoami", key=answer.body["key"])).status == 401


async def test_a_session_makes_keys_that_outlive_it(organization: Organization) -> None:
    person = await session_of(organization)
    made = await person.ok("POST", CREATE.replace("{org}", organization.id), {"name": "k"})
    await organization.server.advance(2 * 86_400)
    assert (await person.call("GET", "/v1/me")).status == 401
    assert (await organization.call("GET", "/v1/whoami", key=made["key"])).status == 200
