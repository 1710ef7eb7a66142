"""People: bootstrap, who they are, their profile, and their sessions (sections 2, 4 and 5)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.localcloud.support.people import session_of, sign_up

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization, Server

SESSION_ONLY = [
    ("POST", "/v1/onboarding/bootstrap", {}),
    ("GET", "/v1/me", None),
    ("PATCH", "/v1/me/profile", {}),
    ("POST", "/v1/orgs", {"name": "x"}),
    ("POST", "/v1/invites/inv_x/accept", None),
]


@pytest.mark.parametrize(("method", "path", "body"), SESSION_ONLY)
async def test_what_belongs_to_a_person_takes_a_session_and_no_key(
    organization: Organization, method: str, path: str, body: object
) -> None:
    assert (await organization.call(method, path, body)).refusal == (403, "forbidden")
    assert (await organization.call(method, path, raw=b"{")).refusal == (403, "forbidden")
    assert (await organization.call(method, path, body, key="ust_nobody")).refusal == (401, "unauthorized")
    assert (await organization.call(method, path, body, key=None)).refusal == (401, "unauthorized")


async def test_bootstrap_makes_the_first_organization_once(server: Server) -> None:
    person = await sign_up(server)
    first = await person.ok("POST", "/v1/onboarding/bootstrap", {"orgName": "Acme"})
    assert sorted(first) == ["organizationId", "role"]
    assert first["role"] == "owner"
    assert await person.ok("POST", "/v1/onboarding/bootstrap", {"orgName": "Other"}) == first
    assert await person.ok("POST", "/v1/onboarding/bootstrap") == first
    me = await person.ok("GET", "/v1/me")
    assert me["memberships"] == [{"organizationId": first["organizationId"], "role": "owner", "name": "Acme"}]


async def test_bootstraps_at_once_make_one_organization(server: Server) -> None:
    person = await sign_up(server)
    calls = [person.ok("POST", "/v1/onboarding/bootstrap", {"orgName": f"n{number}"}) for number in range(8)]
    assert len({made["organizationId"] for made in await asyncio.gather(*calls)}) == 1
    assert len((await person.ok("GET", "/v1/me"))["memberships"]) == 1


@pytest.mark.parametrize("raw", [b"", b"{}", b'{"orgName": null}'])
async def test_bootstrap_needs_no_name(server: Server, raw: bytes) -> None:
    person = await sign_up(server)
    made = (await person.call("POST", "/v1/onboarding/bootstrap", raw=raw)).body
    shown = await person.ok("GET", f"/v1/orgs/{made['organizationId']}")
    assert shown["name"]


@pytest.mark.parametrize("raw", [b"\r", b" \n"])
async def test_a_body_of_white_space_is_not_no_body(server: Server, raw: bytes) -> None:
    person = await sign_up(server)
    refused = await person.call("POST", "/v1/onboarding/bootstrap", raw=raw)
    assert refused.status == 400, refused.body


async def test_bootstrap_of_an_owner_makes_nothing(organization: Organization) -> None:
    owner = await session_of(organization)
    kept = await owner.ok("POST", "/v1/onboarding/bootstrap", {"orgName": "Mine"})
    assert kept == {"organizationId": organization.id, "role": "owner"}
    assert len((await owner.ok("GET", "/v1/me"))["memberships"]) == 1


async def test_who_was_only_added_elsewhere_bootstraps_an_own_organization_and_acts_in_it(
    organization: Organization,
) -> None:
    person = await sign_up(organization.server)
    stranger = await session_of(organization)
    added = {"email": person.email, "role": "member"}
    await stranger.ok("POST", f"/v1/orgs/{organization.id}/members/add", added)
    assert (await person.ok("GET", "/v1/whoami"))["organizationId"] == organization.id
    own = await person.ok("POST", "/v1/onboarding/bootstrap", {"orgName": "Mine"})
    assert (own["role"], own["organizationId"] == organization.id) == ("owner", False)
    assert (await person.ok("GET", "/v1/whoami"))["organizationName"] == "Mine"
    assert await person.ok("POST", "/v1/onboarding/bootstrap") == own


@pytest.mark.parametrize("name", ["", 7, True, ["a"], {"a": 1}, "x" * 201, "a\nb", "\ud800"])
async def test_a_name_that_is_none_is_400_and_makes_nothing(server: Server, name: object) -> None:
    person = await sign_up(server)
    answer = await person.call("POST", "/v1/onboarding/bootstrap", {"orgName": name})
    assert answer.refusal == (400, "invalid_request")
    assert (await person.ok("GET", "/v1/me"))["memberships"] == []


async def test_me_shows_the_user_and_the_memberships(organization: Organization) -> None:
    owner = await session_of(organization)
    assert await owner.ok("GET", "/v1/me") == {
        "user": {"id": organization.user_id, "email": owner.email},
        "memberships": [{"organizationId": organization.id, "role": "owner", "name": "Test"}],
    }


async def test_me_lists_every_membership_in_the_order_of_joining(server: Server) -> None:
    person, names = await sign_up(server), ["one", "two", "three"]
    for name in names:
        await person.ok("POST", "/v1/orgs", {"name": name})
    shown = await person.ok("GET", "/v1/me")
    assert [membership["name"] for membership in shown["memberships"]] == names


async def test_a_profile_is_kept_field_by_field(server: Server) -> None:
    person = await sign_up(server)
    first = await person.ok("PATCH", "/v1/me/profile", {"fullName": "Ada Lovelace"})
    assert first["user"] == {"id": person.id, "email": person.email, "fullName": "Ada Lovelace"}
    avatar = {"avatarUrl": "https://img.example/ada.png"}
    second = await person.ok("PATCH", "/v1/me/profile", {**avatar, "fullName": None})
    assert second["user"] == {**first["user"], **avatar}
    assert await person.ok("PATCH", "/v1/me/profile", {}) == second
    assert await person.ok("GET", "/v1/me") == second
    assert (await person.ok("PATCH", "/v1/me/profile", {"fullName": "", "avatarUrl": ""}))["user"] == {
        "id": person.id,
        "email": person.email,
    }


@pytest.mark.parametrize("field", ["fullName", "avatarUrl", "defaultOrganizationId"])
@pytest.mark.parametrize("value", [7, 1.5, True, ["a"], {"a": "b"}])
async def test_a_profile_field_of_the_wrong_type_is_400(server: Server, field: str, value: object) -> None:
    person = await sign_up(server)
    answer = await person.call("PATCH", "/v1/me/profile", {field: value})
    assert answer.refusal == (400, "invalid_request")
    assert answer.body["error"].startswith(f"{field}: ")


@pytest.mark.parametrize(
    "body",
    [
        {"fullName": "x" * 201},
        {"fullName": "a\u0007b"},
        {"avatarUrl": "nothing"},
        {"avatarUrl": "javascript:alert(1)"},
        {"avatarUrl": "https://a b"},
        {"avatarUrl": "https://" + "x" * 2048},
        [],
        None,
    ],
)
async def test_a_profile_that_makes_no_sense_is_400_and_changes_nothing(server: Server, body: object) -> None:
    person = await sign_up(server)
    before = await person.ok("GET", "/v1/me")
    assert (await person.call("PATCH", "/v1/me/profile", body)).refusal == (400, "invalid_request")
    assert await person.ok("GET", "/v1/me") == before


async def test_the_default_organization_must_be_the_callers_own(organization: Organization) -> None:
    person = await sign_up(organization.server)
    for strange in (organization.id, "org_nowhere", "%", "x" * 100_000):
        answer = await person.call("PATCH", "/v1/me/profile", {"defaultOrganizationId": strange, "fullName": "x"})
        assert answer.refusal == (403, "forbidden")
    assert (await person.ok("GET", "/v1/me"))["user"] == {"id": person.id, "email": person.email}


async def test_a_session_acts_in_its_organization_unless_its_user_prefers_another(organization: Organization) -> None:
    person = await session_of(organization, "member")
    other = await person.ok("POST", "/v1/orgs", {"name": "Other"})

    async def acts_in() -> str:
        return str((await person.ok("GET", "/v1/whoami"))["organizationId"])

    assert await acts_in() == organization.id
    shown = await person.ok("PATCH", "/v1/me/profile", {"defaultOrganizationId": other["id"]})
    assert shown["user"]["defaultOrganizationId"] == other["id"]
    assert await acts_in() == other["id"]
    await person.ok("PATCH", "/v1/me/profile", {"defaultOrganizationId": ""})
    assert await acts_in() == organization.id


async def test_who_was_removed_acts_where_they_still_belong(organization: Organization) -> None:
    person = await session_of(organization, "admin")
    other = await person.ok("POST", "/v1/orgs", {"name": "Other"})
    await person.ok("PATCH", "/v1/me/profile", {"defaultOrganizationId": organization.id})
    await organization.ok("DELETE", f"/v1/orgs/{{org}}/members/{person.id}")
    me = await person.ok("GET", "/v1/me")
    assert me["user"] == {"id": person.id, "email": person.email}
    assert [membership["organizationId"] for membership in me["memberships"]] == [other["id"]]
    assert (await person.ok("GET", "/v1/whoami"))["organizationId"] == other["id"]
    assert (await person.call("GET", f"/v1/orgs/{organization.id}")).refusal == (403, "forbidden")


async def test_who_belongs_nowhere_may_only_found_or_join(organization: Organization) -> None:
    person = await sign_up(organization.server)
    cluster = await organization.ok("POST", "/v1/orgs/{org}/clusters/create", {"name": "c", "gpuModelId": "l40s"})
    for method, path, body in (
        ("GET", "/v1/whoami", None),
        ("GET", "/v1/gpu-models", None),
        ("GET", "/v1/pods/capacity", None),
        ("POST", "/v1/pods", {"image": "a"}),
        ("GET", f"/v1/orgs/{organization.id}", None),
        ("GET", f"/v1/clusters/{cluster['id']}", None),
    ):
        assert (await person.call(method, path, body)).refusal == (403, "forbidden"), path
    logged = (await organization.server.ok("GET", "/requests"))["items"][-1]
    assert (logged["status"], logged["organizationId"]) == (403, None)
    assert (await person.ok("GET", "/v1/me"))["memberships"] == []
    assert (await person.ok("POST", "/v1/onboarding/bootstrap"))["role"] == "owner"
    assert (await person.ok("GET", "/v1/whoami"))["principalType"] == "user"


@pytest.mark.parametrize(
    ("role", "scopes"),
    [
        ("viewer", ["clusters:read", "vms:read", "billing:read"]),
        ("member", ["clusters:read", "clusters:write", "vms:read", "vms:write", "inference", "billing:read"]),
        (
            "admin",
            ["clusters:read", "clusters:write", "vms:read", "vms:write", "inference", "billing:read", "org:write"],
        ),
    ],
)
async def test_whoami_shows_what_a_sessions_role_amounts_to(
    organization: Organization, role: str, scopes: list[str]
) -> None:
    person = await session_of(organization, role)
    assert await person.ok("GET", "/v1/whoami") == {
        "principalType": "user",
        "organizationId": organization.id,
        "organizationName": "Test",
        "scopes": scopes,
    }


async def test_a_session_ends_for_everything_after_24_hours_and_one_signs_in_again(server: Server) -> None:
    person = await sign_up(server, email="Ada@Example.test")
    assert person.email == "ada@example.test"
    await person.ok("POST", "/v1/onboarding/bootstrap")
    await server.advance(86_400)
    for method, path, body in SESSION_ONLY:
        assert (await person.call(method, path, body)).refusal == (401, "unauthorized")
    again = await sign_up(server, email="ada@example.test")
    assert again.id == person.id
    assert len((await again.ok("GET", "/v1/me"))["memberships"]) == 1


@pytest.mark.parametrize("email", ["", "nobody", "a b@c", "@", 7, "x" * 251 + "@y.z"])
async def test_nobody_signs_up_with_what_is_no_e_mail(server: Server, email: object) -> None:
    assert (await server.control("POST", "/users", {"email": email})).refusal == (400, "invalid_request")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/onboarding/bootstrap", "POST"),
        ("POST", "/v1/me", "GET"),
        ("GET", "/v1/me/profile", "PATCH"),
        ("PUT", "/v1/me/profile", "PATCH"),
        ("DELETE", "/v1/me", "GET"),
    ],
)
async def test_methods_that_are_not_served_are_405(server: Server, method: str, path: str, allowed: str) -> None:
    person = await sign_up(server)
    answer = await person.call(method, path)
    assert answer.refusal == (405, "method_not_allowed")
    assert answer.headers["allow"] == allowed
