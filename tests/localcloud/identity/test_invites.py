"""Invites: sent through the control interface, accepted by people, gone when used or expired (settled details)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.localcloud.support.people import invite, session_of, sign_up
from tests.localcloud.support.workloads import DAY

if TYPE_CHECKING:
    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Organization, Server


@pytest.mark.parametrize("role", ["admin", "member", "viewer"])
async def test_an_accepted_invite_makes_a_member(organization: Organization, role: str) -> None:
    person = await sign_up(organization.server)
    token = await invite(organization, person.email, role)
    accepted = await person.ok("POST", f"/v1/invites/{token}/accept")
    assert accepted == {"organizationId": organization.id, "role": role}
    (membership,) = (await person.ok("GET", "/v1/me"))["memberships"]
    assert membership == {"organizationId": organization.id, "role": role, "name": "Test"}
    assert (await person.ok("GET", f"/v1/orgs/{organization.id}"))["id"] == organization.id


async def test_an_invite_is_an_e_mail_in_the_outbox(start_server: StartServer) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    organization = await server.organization(name="Acme")
    token = await invite(organization, "Ada@Example.test", "viewer", expiresInSeconds=60)
    now = (await server.ok("GET", "/clock"))["now"]
    (mail,) = (await server.ok("GET", "/outbox"))["items"]
    body = mail.pop("body")
    assert mail == {
        "at": now,
        "organizationId": organization.id,
        "to": "Ada@Example.test",
        "subject": "You are invited to Acme",
    }
    assert f"POST /v1/invites/{token}/accept" in body
    expires = await server.advance(60)
    assert expires in body


async def test_an_invite_expires_on_the_clouds_clock(organization: Organization) -> None:
    person = await sign_up(organization.server)
    token = await invite(organization, person.email, expiresInSeconds=60)
    later = await invite(organization, person.email, expiresInSeconds=61)
    await organization.server.advance(60)
    assert (await person.call("POST", f"/v1/invites/{token}/accept")).refusal == (410, "gone")
    assert (await person.ok("GET", "/v1/me"))["memberships"] == []
    assert (await person.call("POST", f"/v1/invites/{later}/accept")).status == 200


async def test_an_invite_lasts_a_week_unless_told_otherwise_and_for_no_time_at_all_it_has_expired(
    organization: Organization,
) -> None:
    server = organization.server
    person = await sign_up(server)
    at_once = await invite(organization, person.email, expiresInSeconds=0)
    assert (await person.call("POST", f"/v1/invites/{at_once}/accept")).refusal == (410, "gone")
    tokens = [await invite(organization, person.email), await invite(organization, person.email, expiresInSeconds=None)]
    await server.advance(7 * 86_400 - 1)
    person = await sign_up(server, email=person.email)
    assert (await person.call("POST", f"/v1/invites/{tokens[0]}/accept")).status == 200
    await server.advance(1)
    assert (await person.call("POST", f"/v1/invites/{tokens[1]}/accept")).refusal == (410, "gone")


async def test_an_invite_is_used_once(organization: Organization) -> None:
    first, second = await sign_up(organization.server), await sign_up(organization.server)
    token = await invite(organization, "somebody@else.example")
    assert (await first.call("POST", f"/v1/invites/{token}/accept")).status == 200
    for person in (first, second):
        assert (await person.call("POST", f"/v1/invites/{token}/accept")).refusal == (410, "gone")
    assert (await second.ok("GET", "/v1/me"))["memberships"] == []


async def test_an_invite_to_a_persons_e_mail_is_theirs_alone(organization: Organization) -> None:
    meant, other = await sign_up(organization.server), await session_of(organization, "viewer")
    token = await invite(organization, meant.email.upper(), "admin")
    assert (await other.call("POST", f"/v1/invites/{token}/accept")).refusal == (403, "forbidden")
    assert (await meant.ok("POST", f"/v1/invites/{token}/accept"))["role"] == "admin"


async def test_whoever_signed_up_after_the_invite_was_sent_owns_it_too(organization: Organization) -> None:
    token = await invite(organization, "late@comer.example")
    late, other = await sign_up(organization.server, email="late@comer.example"), await sign_up(organization.server)
    assert (await other.call("POST", f"/v1/invites/{token}/accept")).refusal == (403, "forbidden")
    assert (await late.call("POST", f"/v1/invites/{token}/accept")).status == 200


async def test_a_member_cannot_join_again_and_keeps_role_and_invite(organization: Organization) -> None:
    person = await session_of(organization, "viewer")
    token = await invite(organization, person.email, "admin")
    assert (await person.call("POST", f"/v1/invites/{token}/accept")).refusal == (409, "conflict")
    assert (await person.ok("GET", "/v1/me"))["memberships"][0]["role"] == "viewer"
    await organization.ok("DELETE", f"/v1/orgs/{{org}}/members/{person.id}")
    assert (await person.ok("POST", f"/v1/invites/{token}/accept"))["role"] == "admin"


@pytest.mark.parametrize("token", ["inv_nothing", "x" * 5_000, "%00", "%ff%fe", "ust_x", "..%2F"])
async def test_an_unknown_invite_is_404(server: Server, token: str) -> None:
    person = await sign_up(server)
    assert (await person.call("POST", f"/v1/invites/{token}/accept")).refusal == (404, "not_found")


async def test_an_invite_takes_no_body_and_overlooks_one(organization: Organization) -> None:
    person = await sign_up(organization.server)
    token = await invite(organization, person.email)
    assert (await person.call("POST", f"/v1/invites/{token}/accept", raw=b"{broken")).status == 200


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"email": "a@b.example"},
        {"role": "viewer"},
        {"email": "a@b.example", "role": "owner"},
        {"email": "a@b.example", "role": 7},
        {"email": "nobody", "role": "viewer"},
        {"email": None, "role": "viewer"},
        {"email": "a@b.example", "role": "viewer", "expiresInSeconds": -1},
        {"email": "a@b.example", "role": "viewer", "expiresInSeconds": 1.5},
        {"email": "a@b.example", "role": "viewer", "expiresInSeconds": "60"},
        {"email": "a@b.example", "role": "viewer", "expiresInSeconds": 10**30},
        {"email": "a@b.example", "role": "viewer", "colour": "red"},
        [],
    ],
)
async def test_an_invite_that_makes_no_sense_is_400_and_sends_nothing(organization: Organization, body: object) -> None:
    before = await organization.server.ok("GET", "/export")
    answer = await organization.server.control("POST", f"/orgs/{organization.id}/invites", body)
    assert answer.refusal == (400, "invalid_request")
    assert await organization.server.ok("GET", "/export") == before


async def test_an_invite_needs_an_organization(server: Server) -> None:
    answer = await server.control("POST", "/orgs/org_nowhere/invites", {"email": "a@b.example", "role": "viewer"})
    assert answer.refusal == (404, "not_found")


async def test_only_the_digest_of_a_token_is_kept_beside_its_e_mail(organization: Organization) -> None:
    token = await invite(organization, "somebody@else.example")
    tables = (await organization.server.ok("GET", "/export"))["tables"]
    assert [name for name, rows in tables.items() if token in str(rows)] == ["outbox"]


async def test_reading_an_invite_is_405(server: Server) -> None:
    person = await sign_up(server)
    answer = await person.call("GET", "/v1/invites/inv_x/accept")
    assert answer.refusal == (405, "method_not_allowed")
    assert answer.headers["allow"] == "POST"


async def test_an_invite_is_forgotten_a_day_after_its_end(organization: Organization) -> None:
    server, person = organization.server, await sign_up(organization.server)
    used = await invite(organization, "one@else.example", expiresInSeconds=365 * DAY)
    expired = await invite(organization, "two@else.example", expiresInSeconds=0)
    await person.ok("POST", f"/v1/invites/{used}/accept")
    for passed, refusal in ((DAY - 1, (410, "gone")), (1, (404, "not_found"))):
        await server.advance(passed)
        await invite(organization, "another@else.example")
        person = await sign_up(server)
        for token in (used, expired):
            assert (await person.call("POST", f"/v1/invites/{token}/accept")).refusal == refusal
