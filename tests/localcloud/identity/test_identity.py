"""Who may do what: section 5 of the specification and its settled details."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.localcloud.support.everything import PUBLIC_KEY
from tests.localcloud.support.server import request

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization, Server

ALL_SCOPES = [
    "clusters:read",
    "clusters:write",
    "vms:read",
    "vms:write",
    "inference",
    "billing:read",
    "org:write",
]


async def key_with(organization: Organization, *scopes: str) -> str:
    created = await organization.ok(
        "POST", "/v1/orgs/{org}/api-keys/create", {"name": "narrow", "scopes": list(scopes)}
    )
    return str(created["key"])


async def session_of(organization: Organization, role: str) -> str:
    opened = await organization.server.ok("POST", f"/orgs/{organization.id}/session", {"role": role})
    return str(opened["userSessionToken"])


async def test_whoami_shows_the_organization_and_scopes_of_the_key(organization: Organization) -> None:
    assert await organization.ok("GET", "/v1/whoami") == {
        "principalType": "api_key",
        "organizationId": organization.id,
        "organizationName": "Test",
        "scopes": ALL_SCOPES,
    }


async def test_whoami_needs_no_scope(organization: Organization) -> None:
    key = await key_with(organization, "inference")
    assert (await organization.ok("GET", "/v1/whoami", key=key))["scopes"] == ["inference"]


async def test_whoami_shows_scopes_in_the_order_in_which_the_key_got_them(organization: Organization) -> None:
    key = await key_with(organization, "vms:write", "inference", "clusters:read")
    assert (await organization.ok("GET", "/v1/whoami", key=key))["scopes"] == [
        "vms:write",
        "inference",
        "clusters:read",
    ]


async def test_whoami_with_a_session_shows_a_user(organization: Organization) -> None:
    shown = await organization.ok("GET", "/v1/whoami", key=organization.user_session_token)
    assert (shown["principalType"], shown["organizationId"]) == ("user", organization.id)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer or_nobody"},
        {"Authorization": "Bearer vl_nobody"},
        {"Authorization": "Bearer something-else"},
        {"Authorization": "Basic b3I6b3I="},
        {"Authorization": "Bearer \xff\xfe"},
        {"x-api-key": "or_nobody"},
    ],
)
async def test_a_missing_or_invalid_key_is_401(server: Server, headers: dict[str, str]) -> None:
    answer = await request("GET", server.url + "/v1/whoami", headers=headers)
    assert (answer.refusal, answer.headers["www-authenticate"]) == ((401, "unauthorized"), "Bearer")


async def test_the_scheme_of_the_authorization_header_has_no_case(organization: Organization) -> None:
    headers = {"Authorization": f"bearer {organization.api_key}"}
    assert (await organization.call("GET", "/v1/whoami", key=None, headers=headers)).status == 200


async def test_a_created_key_is_shown_once_and_works(organization: Organization) -> None:
    created = await organization.ok(
        "POST", "/v1/orgs/{org}/api-keys/create", {"name": "ci", "scopes": ["vms:read", "vms:write"]}
    )
    assert sorted(created) == ["createdAt", "id", "key", "keyPrefix", "name", "organizationId", "scopes"]
    assert created["key"].startswith("or_")
    assert created["key"].startswith(created["keyPrefix"])
    assert created["organizationId"] == organization.id
    assert created["scopes"] == ["vms:read", "vms:write"]
    listed = await organization.ok("GET", "/v1/orgs/{org}/api-keys")
    assert isinstance(listed, list)
    mine = next(key for key in listed if key["id"] == created["id"])
    assert mine == {
        "id": created["id"],
        "name": "ci",
        "keyPrefix": created["keyPrefix"],
        "scopes": ["vms:read", "vms:write"],
        "createdAt": created["createdAt"],
    }
    assert created["key"] not in json.dumps(listed)
    assert (await organization.ok("GET", "/v1/whoami", key=created["key"]))["organizationId"] == organization.id


async def test_a_key_without_scopes_gets_its_creators(organization: Organization) -> None:
    narrow = await key_with(organization, "org:write", "vms:read")
    for body in ({"name": "a"}, {"name": "c", "scopes": None}):
        created = await organization.ok("POST", "/v1/orgs/{org}/api-keys/create", body, key=narrow)
        assert created["scopes"] == ["org:write", "vms:read"]


async def test_an_unknown_scope_is_400_and_more_than_the_creator_has_403(organization: Organization) -> None:
    path = "/v1/orgs/{org}/api-keys/create"
    unknown = await organization.call("POST", path, {"name": "a", "scopes": ["vms:destroy"]})
    assert unknown.refusal == (400, "invalid_request")
    narrow = await key_with(organization, "org:write", "vms:read")
    beyond = await organization.call("POST", path, {"name": "a", "scopes": ["vms:write"]}, key=narrow)
    assert beyond.refusal == (403, "forbidden")


async def test_a_key_expires_on_the_clouds_clock(organization: Organization) -> None:
    created = await organization.ok("POST", "/v1/orgs/{org}/api-keys/create", {"name": "short", "expiresInSeconds": 60})
    await organization.server.advance(59.9)
    assert (await organization.call("GET", "/v1/whoami", key=created["key"])).status == 200
    await organization.server.advance(0.1)
    assert (await organization.call("GET", "/v1/whoami", key=created["key"])).refusal == (401, "unauthorized")
    listed = await organization.ok("GET", "/v1/orgs/{org}/api-keys")
    assert next(key for key in listed if key["id"] == created["id"])["expiresAt"]


@pytest.mark.parametrize("never", [0, -1, -(2**62), None])
async def test_no_positive_expiry_means_never(organization: Organization, never: int | None) -> None:
    created = await organization.ok(
        "POST", "/v1/orgs/{org}/api-keys/create", {"name": "long", "expiresInSeconds": never}
    )
    await organization.server.advance(400 * 86_400)
    assert (await organization.call("GET", "/v1/whoami", key=created["key"])).status == 200


async def test_an_expiry_past_the_calendar_is_taken(organization: Organization) -> None:
    body = {"name": "long", "expiresInSeconds": 2**63 - 1}
    created = await organization.ok("POST", "/v1/orgs/{org}/api-keys/create", body)
    assert (await organization.call("GET", "/v1/whoami", key=created["key"])).status == 200
    listed = await organization.ok("GET", "/v1/orgs/{org}/api-keys")
    assert next(key for key in listed if key["id"] == created["id"])["expiresAt"].startswith("9999-12-31T23:59:59")


async def test_a_revoked_key_is_401_at_once_and_stays_listed(organization: Organization) -> None:
    created = await organization.ok("POST", "/v1/orgs/{org}/api-keys/create", {"name": "gone"})
    revoked = await organization.call("DELETE", "/v1/orgs/{org}/api-keys/" + created["id"])
    assert (revoked.status, revoked.raw) == (204, b"")
    assert (await organization.call("GET", "/v1/whoami", key=created["key"])).refusal == (401, "unauthorized")
    again = await organization.call("DELETE", "/v1/orgs/{org}/api-keys/" + created["id"])
    assert again.status == 204
    listed = await organization.ok("GET", "/v1/orgs/{org}/api-keys")
    assert next(key for key in listed if key["id"] == created["id"])["revokedAt"]


async def test_a_key_of_another_organization_cannot_be_revoked(server: Server, organization: Organization) -> None:
    other = await server.organization()
    created = await other.ok("POST", "/v1/orgs/{org}/api-keys/create", {"name": "theirs"})
    answer = await organization.call("DELETE", "/v1/orgs/{org}/api-keys/" + created["id"])
    assert answer.refusal == (404, "not_found")
    assert (await other.call("GET", "/v1/whoami", key=created["key"])).status == 200


async def test_last_use_is_shown(organization: Organization) -> None:
    created = await organization.ok("POST", "/v1/orgs/{org}/api-keys/create", {"name": "used"})
    await organization.ok("GET", "/v1/whoami", key=created["key"])
    listed = await organization.ok("GET", "/v1/orgs/{org}/api-keys")
    assert next(key for key in listed if key["id"] == created["id"])["lastUsedAt"] == created["createdAt"]


async def test_a_legacy_key_authenticates(organization: Organization) -> None:
    made = await organization.server.ok("POST", f"/orgs/{organization.id}/legacy-key")
    assert made["apiKey"].startswith("vl_")
    assert (await organization.ok("GET", "/v1/whoami", key=made["apiKey"]))["organizationId"] == organization.id


async def test_another_organization_in_the_path_is_403(server: Server, organization: Organization) -> None:
    other = await server.organization()
    for path in (f"/v1/orgs/{other.id}", f"/v1/orgs/{other.id}/webhooks", "/v1/orgs/org_nowhere/api-keys"):
        assert (await organization.call("GET", path)).refusal == (403, "forbidden"), path
        with_session = await organization.call("GET", path, key=organization.user_session_token)
        assert with_session.refusal == (403, "forbidden"), path


async def test_an_organization_shows_itself_to_any_of_its_keys(organization: Organization) -> None:
    key = await key_with(organization, "inference")
    shown = await organization.ok("GET", "/v1/orgs/{org}", key=key)
    assert (shown["id"], shown["name"]) == (organization.id, "Test")


@pytest.mark.parametrize(
    ("method", "path", "sufficient"),
    [
        ("GET", "/v1/orgs/{org}/api-keys", {"org:write"}),
        ("POST", "/v1/orgs/{org}/api-keys/create", {"org:write"}),
        ("DELETE", "/v1/orgs/{org}/api-keys/key_x", {"org:write"}),
        ("GET", "/v1/orgs/{org}/webhooks", {"clusters:write", "vms:write"}),
        ("POST", "/v1/orgs/{org}/webhooks/create", {"clusters:write", "vms:write"}),
        ("DELETE", "/v1/orgs/{org}/webhooks/wh_x", {"clusters:write", "vms:write"}),
        ("POST", "/v1/orgs/{org}/webhooks/wh_x/toggle", {"clusters:write", "vms:write"}),
        ("POST", "/v1/orgs/{org}/webhooks/wh_x/regenerate-secret", {"clusters:write", "vms:write"}),
        ("GET", "/v1/orgs/{org}/webhooks/wh_x/deliveries", {"clusters:write", "vms:write"}),
        ("GET", "/v1/orgs/{org}/ssh-keys", {"clusters:write", "vms:write"}),
        ("POST", "/v1/orgs/{org}/ssh-keys/create", {"clusters:write", "vms:write"}),
        ("DELETE", "/v1/orgs/{org}/ssh-keys/ssh_x", {"clusters:write", "vms:write"}),
    ],
)
async def test_each_scope_opens_what_it_covers_and_nothing_else(
    organization: Organization, method: str, path: str, sufficient: set[str]
) -> None:
    for scope in ALL_SCOPES:
        key = await key_with(organization, scope)
        answer = await organization.call(method, path, key=key)
        if scope in sufficient:
            assert answer.status in {200, 400, 404}, scope
        else:
            assert answer.refusal == (403, "forbidden"), scope


@pytest.mark.parametrize(
    ("role", "reads", "works", "administers"),
    [
        ("viewer", True, False, False),
        ("member", True, True, False),
        ("admin", True, True, True),
        ("owner", True, True, True),
    ],
)
async def test_a_session_may_do_what_its_role_allows(
    organization: Organization, role: str, reads: bool, works: bool, administers: bool
) -> None:
    token = await session_of(organization, role)
    hook = {"name": "h", "url": "http://127.0.0.1:9/"}
    may = [
        (await organization.call("GET", "/v1/orgs/{org}/webhooks", key=token)).status == 200,
        (await organization.call("POST", "/v1/orgs/{org}/webhooks/create", hook, key=token)).status == 200,
        (await organization.call("POST", "/v1/orgs/{org}/api-keys/create", {"name": "k"}, key=token)).status == 200,
    ]
    assert may == [reads, works, administers]


async def test_a_session_lasts_24_hours_of_the_clouds_clock(organization: Organization) -> None:
    token = await session_of(organization, "owner")
    await organization.server.advance(86_399)
    assert (await organization.call("GET", "/v1/whoami", key=token)).status == 200
    await organization.server.advance(1)
    assert (await organization.call("GET", "/v1/whoami", key=token)).refusal == (401, "unauthorized")


async def test_the_scope_is_looked_at_before_the_body(organization: Organization) -> None:
    key = await key_with(organization, "inference")
    answer = await organization.call("POST", "/v1/orgs/{org}/webhooks/create", key=key, raw=b"{")
    assert answer.refusal == (403, "forbidden")


async def test_lists_are_in_the_order_of_creation_within_one_instant(organization: Organization) -> None:
    names = [f"n{number}" for number in range(8)]
    public = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGpG4mWEYhL6KYQ9JQjqLnqWmHqDyyB0jJ1BwBMzX9tQ me@host"
    more = {"publicKey": public, "url": "http://127.0.0.1:9/"}
    for collection in ("api-keys", "ssh-keys", "webhooks"):
        for name in names:
            await organization.ok("POST", f"/v1/orgs/{{org}}/{collection}/create", {"name": name, **more})
        listed = await organization.ok("GET", f"/v1/orgs/{{org}}/{collection}")
        items = listed if collection == "api-keys" else listed["items"]
        assert [item["name"] for item in items if item["name"] != "default"] == names, collection


async def test_ssh_keys_are_registered_listed_and_removed(organization: Organization) -> None:
    public = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGpG4mWEYhL6KYQ9JQjqLnqWmHqDyyB0jJ1BwBMzX9tQ me@host"
    created = await organization.ok("POST", "/v1/orgs/{org}/ssh-keys/create", {"name": "laptop", "publicKey": public})
    assert (created["name"], created["publicKey"]) == ("laptop", public)
    assert await organization.ok("GET", "/v1/orgs/{org}/ssh-keys") == {"items": [created]}
    clash = await organization.call("POST", "/v1/orgs/{org}/ssh-keys/create", {"name": "laptop", "publicKey": public})
    assert clash.refusal == (409, "conflict")
    assert (await organization.call("DELETE", "/v1/orgs/{org}/ssh-keys/" + created["id"])).status == 204
    assert (await organization.call("DELETE", "/v1/orgs/{org}/ssh-keys/" + created["id"])).status == 404


COMPRESSED_POINT = (
    "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAAAh"
    "A2sX0fLhLEJH+Lzm5WOkQPJ3A32BLeszoPShOUXYmMKW"
)
"""A key that OpenSSH does not accept either: it reads only points with both coordinates."""
TWO_KEYS = f"{PUBLIC_KEY}\n{PUBLIC_KEY}"


@pytest.mark.parametrize(
    "text",
    ["nonsense", "ssh-ed25519", "ssh-ed25519 !!!", "ssh-rsa AAAA", "\n", "ssh-x AAAA b", COMPRESSED_POINT, TWO_KEYS],
)
async def test_an_ssh_key_must_parse(organization: Organization, text: str) -> None:
    body = {"name": "bad", "publicKey": text}
    answer = await organization.call("POST", "/v1/orgs/{org}/ssh-keys/create", body)
    assert answer.refusal == (400, "invalid_request")
    answer = await organization.call("POST", "/v1/pods", {"image": "x", "sshKeys": [text]})
    assert answer.refusal == (400, "invalid_request")
