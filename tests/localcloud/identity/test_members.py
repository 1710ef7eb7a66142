"""Members of an organization: listed, added, given other roles, removed (section 4, "Organizations")."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.localcloud.support.people import session_of, sign_up

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization, Server

LIST = "/v1/orgs/{org}/members"
ADD = "/v1/orgs/{org}/members/add"


async def roles(organization: Organization) -> dict[str, str]:
    listed = await organization.ok("GET", LIST)
    return {member["userId"]: member["role"] for member in listed["items"]}


async def test_members_are_listed_in_the_order_of_joining(organization: Organization) -> None:
    owner, admin, viewer = [await session_of(organization, role) for role in (None, "admin", "viewer")]
    await admin.ok("PATCH", "/v1/me/profile", {"fullName": "Ada"})
    now = (await organization.server.ok("GET", "/clock"))["now"]
    assert await organization.ok("GET", LIST) == {
        "items": [
            {"userId": owner.id, "email": owner.email, "role": "owner", "joinedAt": now},
            {"userId": admin.id, "email": admin.email, "role": "admin", "joinedAt": now, "fullName": "Ada"},
            {"userId": viewer.id, "email": viewer.email, "role": "viewer", "joinedAt": now},
        ]
    }


@pytest.mark.parametrize("role", ["admin", "member", "viewer"])
async def test_who_has_signed_up_is_added_by_e_mail(organization: Organization, role: str) -> None:
    person = await sign_up(organization.server)
    added = await organization.ok("POST", ADD, {"email": person.email.upper(), "role": role})
    now = (await organization.server.ok("GET", "/clock"))["now"]
    assert added == {"userId": person.id, "email": person.email, "role": role, "joinedAt": now}
    assert (await roles(organization))[person.id] == role
    (membership,) = (await person.ok("GET", "/v1/me"))["memberships"]
    assert membership == {"organizationId": organization.id, "role": role, "name": "Test"}
    assert (await person.ok("GET", "/v1/whoami"))["organizationId"] == organization.id


async def test_who_never_signed_up_is_404_and_who_is_a_member_409(organization: Organization) -> None:
    person = await session_of(organization, "viewer")
    unknown = await organization.call("POST", ADD, {"email": "nobody@nowhere.example", "role": "member"})
    assert unknown.refusal == (404, "not_found")
    again = await organization.call("POST", ADD, {"email": person.email, "role": "admin"})
    assert again.refusal == (409, "conflict")
    assert (await roles(organization))[person.id] == "viewer"


BAD_ADDS = [
    {},
    {"email": "a@b.example"},
    {"role": "member"},
    {"email": None, "role": "member"},
    {"email": "a@b.example", "role": None},
    {"email": "a@b.example", "role": "owner"},
    {"email": "a@b.example", "role": "king"},
    {"email": "a@b.example", "role": ""},
    {"email": "a@b.example", "role": 1},
    {"email": "a@b.example", "role": ["admin"]},
    {"email": "nobody", "role": "member"},
    {"email": "", "role": "member"},
    {"email": "a b@c.example", "role": "member"},
    {"email": 7, "role": "member"},
    {"email": "a" * 254 + "@b.example", "role": "member"},
    [],
    "a@b.example",
    None,
]


@pytest.mark.parametrize("body", BAD_ADDS)
async def test_an_addition_that_makes_no_sense_is_400(organization: Organization, body: object) -> None:
    assert (await organization.call("POST", ADD, body)).refusal == (400, "invalid_request")


@pytest.mark.parametrize("role", ["owner", "admin", "member", "viewer"])
async def test_a_role_can_be_changed_into_every_other(organization: Organization, role: str) -> None:
    owner, person = await session_of(organization), await session_of(organization, "member")
    before = (await organization.ok("GET", LIST))["items"][1]
    changed = await owner.ok("PATCH", f"/v1/orgs/{organization.id}/members/{person.id}", {"role": role})
    assert changed == {**before, "role": role}
    assert (await roles(organization))[person.id] == role


@pytest.mark.parametrize("with_a_key", [False, True])
async def test_only_an_owners_session_makes_changes_and_removes_owners(
    organization: Organization, *, with_a_key: bool
) -> None:
    founder, admin = await session_of(organization), await session_of(organization, "admin")
    second, before = await session_of(organization, "owner"), await roles(organization)
    caller = organization if with_a_key else admin
    path = f"/v1/orgs/{organization.id}/members/"
    for method, user_id, role in (
        ("PATCH", admin.id, "owner"),
        ("PATCH", founder.id, "viewer"),
        ("PATCH", founder.id, "owner"),
        ("DELETE", founder.id, None),
    ):
        answer = await caller.call(method, path + user_id, {"role": role})
        assert answer.refusal == (403, "forbidden"), (method, role)
    assert await roles(organization) == before
    assert (await founder.ok("PATCH", path + admin.id, {"role": "owner"}))["role"] == "owner"
    assert (await founder.ok("PATCH", path + second.id, {"role": "viewer"}))["role"] == "viewer"
    assert (await admin.call("DELETE", path + founder.id)).status == 204
    assert await roles(organization) == {admin.id: "owner", second.id: "viewer"}


async def test_who_owns_one_organization_makes_no_owners_of_another(organization: Organization) -> None:
    admin = await session_of(organization, "admin")
    await admin.ok("POST", "/v1/orgs", {"name": "Own"})
    answer = await admin.call("PATCH", f"/v1/orgs/{organization.id}/members/{admin.id}", {"role": "owner"})
    assert answer.refusal == (403, "forbidden")


READING = ["clusters:read", "vms:read", "billing:read"]
WORKING = [*READING, "clusters:write", "vms:write", "inference"]


@pytest.mark.parametrize(
    ("scopes", "gives"),
    [
        (["org:write"], []),
        (["org:write", *READING[1:]], []),
        (["org:write", *READING], ["viewer"]),
        (["org:write", *WORKING[:-1]], ["viewer"]),
        (["org:write", *WORKING], ["admin", "member", "viewer"]),
    ],
)
async def test_a_key_gives_no_role_that_may_do_more_than_the_key(
    organization: Organization, scopes: list[str], gives: list[str]
) -> None:
    create = "/v1/orgs/{org}/api-keys/create"
    key = (await organization.ok("POST", create, {"name": "k", "scopes": scopes}))["key"]
    for role in ("admin", "member", "viewer"):
        stranger, outside = await sign_up(organization.server), await session_of(organization, "viewer")
        added = await organization.call("POST", ADD, {"email": stranger.email, "role": role}, key=key)
        assert added.status == (200 if role in gives else 403), role
        assert (stranger.id in await roles(organization)) is (role in gives)
        changed = await organization.call("PATCH", f"{LIST}/{outside.id}", {"role": role}, key=key)
        assert changed.status == (200 if role in gives or role == "viewer" else 403), role


async def test_a_key_that_may_do_little_takes_roles_away(organization: Organization) -> None:
    create = "/v1/orgs/{org}/api-keys/create"
    key = (await organization.ok("POST", create, {"name": "k", "scopes": ["org:write"]}))["key"]
    person = await session_of(organization, "admin")
    for role in ("member", "viewer"):
        assert (await organization.ok("PATCH", f"{LIST}/{person.id}", {"role": role}, key=key))["role"] == role
    assert (await organization.call("DELETE", f"{LIST}/{person.id}", key=key)).status == 204


@pytest.mark.parametrize("body", [{}, {"role": None}, {"role": "king"}, {"role": 1}, {"role": ["owner"]}, [], None])
async def test_a_role_that_is_none_is_400_and_changes_nothing(organization: Organization, body: object) -> None:
    person = await session_of(organization, "member")
    answer = await organization.call("PATCH", f"{LIST}/{person.id}", body)
    assert answer.refusal == (400, "invalid_request")
    assert (await roles(organization))[person.id] == "member"


async def test_a_changed_role_counts_at_once_for_a_session_that_is_open(organization: Organization) -> None:
    person = await session_of(organization, "viewer")
    hook = {"name": "h", "url": "http://127.0.0.1:9/"}
    create = f"/v1/orgs/{organization.id}/webhooks/create"
    assert (await person.call("POST", create, hook)).refusal == (403, "forbidden")
    await organization.ok("PATCH", f"{LIST}/{person.id}", {"role": "member"})
    assert (await person.call("POST", create, hook)).status == 200
    await organization.ok("PATCH", f"{LIST}/{person.id}", {"role": "viewer"})
    assert (await person.call("POST", create, hook)).refusal == (403, "forbidden")


async def test_a_removed_member_is_out_at_once_and_the_keys_they_made_stay(organization: Organization) -> None:
    person = await session_of(organization, "admin")
    made = await person.ok("POST", f"/v1/orgs/{organization.id}/api-keys/create", {"name": "k"})
    removed = await organization.call("DELETE", f"{LIST}/{person.id}")
    assert (removed.status, removed.raw) == (204, b"")
    assert person.id not in await roles(organization)
    assert (await person.call("GET", f"/v1/orgs/{organization.id}")).refusal == (403, "forbidden")
    assert (await person.ok("GET", "/v1/me"))["memberships"] == []
    assert (await organization.call("GET", "/v1/whoami", key=made["key"])).status == 200
    again = await organization.call("DELETE", f"{LIST}/{person.id}")
    assert again.refusal == (404, "not_found")


async def test_the_last_owner_stays_owner(organization: Organization) -> None:
    owner = await session_of(organization)
    path = f"/v1/orgs/{organization.id}/members/{owner.id}"
    for caller in (owner, await session_of(organization, "admin"), organization):
        for role in ("admin", "member", "viewer"):
            assert (await caller.call("PATCH", path, {"role": role})).refusal == (409, "conflict")
        assert (await caller.call("DELETE", path)).refusal == (409, "conflict")
    assert (await owner.ok("PATCH", path, {"role": "owner"}))["role"] == "owner"
    assert (await roles(organization))[owner.id] == "owner"


@pytest.mark.parametrize(("method", "body", "status"), [("PATCH", {"role": "viewer"}, 200), ("DELETE", None, 204)])
async def test_an_owner_beside_another_may_go(
    organization: Organization, method: str, body: object, status: int
) -> None:
    first, second = await session_of(organization), await session_of(organization, "owner")
    path = f"/v1/orgs/{organization.id}/members/"
    assert (await second.call(method, path + first.id, body)).status == status
    assert (await second.call(method, path + second.id, body)).refusal == (409, "conflict")
    assert (await roles(organization))[second.id] == "owner"


@pytest.mark.parametrize(("method", "body"), [("PATCH", {"role": "viewer"}), ("DELETE", None)])
async def test_who_is_no_member_is_404(server: Server, organization: Organization, method: str, body: object) -> None:
    other = await server.organization()
    stranger = await session_of(other, "member")
    for user_id in (stranger.id, other.user_id, "usr_nobody", "%00", "x" * 5_000):
        answer = await organization.call(method, f"{LIST}/{user_id}", body)
        assert answer.refusal == (404, "not_found"), user_id
    assert (await roles(other))[stranger.id] == "member"


async def test_members_of_another_organization_are_nobodys_business(server: Server, organization: Organization) -> None:
    other = await server.organization()
    for caller in (organization.api_key, organization.user_session_token):
        for method, path, body in (
            ("GET", f"/v1/orgs/{other.id}/members", None),
            ("POST", f"/v1/orgs/{other.id}/members/add", {"email": "a@b.example", "role": "viewer"}),
            ("PATCH", f"/v1/orgs/{other.id}/members/{other.user_id}", {"role": "viewer"}),
            ("DELETE", f"/v1/orgs/{other.id}/members/{other.user_id}", None),
        ):
            assert (await organization.call(method, path, body, key=caller)).refusal == (403, "forbidden")
    assert await roles(other) == {other.user_id: "owner"}


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", LIST, {"GET"}),
        ("DELETE", LIST, {"GET"}),
        ("PUT", LIST + "/usr_x", {"PATCH", "DELETE"}),
        ("GET", LIST + "/usr_x", {"PATCH", "DELETE"}),
    ],
)
async def test_methods_of_members_that_are_not_served_are_405(
    organization: Organization, method: str, path: str, allowed: set[str]
) -> None:
    answer = await organization.call(method, path)
    assert answer.refusal == (405, "method_not_allowed")
    assert set(answer.headers["allow"].split(", ")) == allowed
