"""Nothing sent to the operations of identity ends in a 500, and what is refused changes nothing."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest

from tests.localcloud.support.people import session_of, sign_up
from tests.localcloud.support.server import request

if TYPE_CHECKING:
    from pathlib import Path

    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Organization

BODIES = [
    ("POST", "/v1/onboarding/bootstrap", {"orgName": "a"}),
    ("PATCH", "/v1/me/profile", {"fullName": "a", "avatarUrl": "https://a.example", "defaultOrganizationId": ""}),
    ("POST", "/v1/orgs", {"name": "a", "slug": None, "billingEmail": "a@b.example"}),
    ("PATCH", "/v1/orgs/{org}", {"name": "a", "billingEmail": "a@b.example", "monthlySpendLimitCents": 1}),
    ("POST", "/v1/orgs/{org}/members/add", {"email": "a@b.example", "role": "viewer"}),
    ("PATCH", "/v1/orgs/{org}/members/{user}", {"role": "owner"}),
    ("POST", "/v1/orgs/{org}/api-keys/create", {"name": "a", "scopes": ["inference"], "expiresInSeconds": 1}),
]
ODD: list[object] = [
    *(
        None,
        True,
        0,
        -1,
        1.5,
        10**15,
        2**63 - 1,
        2**63,
        10**400,
        1e308,
        "",
        " ",
        "\u0000",
        "\ud800",
        "\u202e",
        "é" * 64,
    ),
    *("x" * 100_000, "' OR 1=1 --", "%s{0}", "a@b", [], [[]], [None], ["a"] * 10_000, {}, {"a": {"b": []}}),
]
BROKEN = [
    *(b"{", b"[]", b'"a"', b"1", b"null", b"name=a", b"{}{}", b'{"name": NaN}', b'{"name": "\xff"}', b'{"\\u0000": 1}'),
    b'{"name": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
]


@pytest.mark.parametrize(("method", "path", "body"), BODIES)
async def test_an_odd_value_in_any_field_is_taken_or_400(
    organization: Organization, method: str, path: str, body: dict[str, object]
) -> None:
    owner, second = await session_of(organization), await session_of(organization, "owner")
    address = path.format(org=organization.id, user=second.id)
    for field in (*body, "surprise"):
        for value in ODD:
            answer = await owner.call(method, address, {**body, field: value})
            assert answer.status in {200, 400, 403, 404}, (field, str(value)[:40], answer.raw[:200])
            if answer.status != 200:
                assert answer.refusal[1] in {"invalid_request", "forbidden", "not_found"}
            if field == "surprise" and answer.status == 400:
                assert value in ("\0", "\ud800", 2**63, 10**400)
    assert "Traceback" not in organization.server.log


@pytest.mark.parametrize(("method", "path", "body"), BODIES)
async def test_a_body_that_is_no_object_is_400(
    organization: Organization, method: str, path: str, body: dict[str, object]
) -> None:
    del body
    owner = await session_of(organization)
    for raw in BROKEN:
        answer = await owner.call(method, path.format(org=organization.id, user=owner.id), raw=raw)
        assert answer.refusal == (400, "invalid_request"), raw[:40]
    assert "Traceback" not in organization.server.log


async def test_a_state_from_before_there_were_invites_is_read(start_server: StartServer, tmp_path: Path) -> None:
    arguments = ("--state", str(tmp_path / "state"), "--clock", "frozen")
    first = start_server(*arguments)
    organization = await first.organization()
    exported = await first.ok("GET", "/export")
    first.stop()
    added = ("profiles", "invites", "inference_usage")
    with sqlite3.connect(tmp_path / "state" / "state.db") as former:
        for table in added:
            former.execute(f"DROP TABLE {table}")
    former.close()
    second, elsewhere = start_server(*arguments), start_server("--ephemeral", "--clock", "frozen")
    former_tables = {name: rows for name, rows in exported["tables"].items() if name not in added}
    await elsewhere.ok("POST", "/import", {**exported, "tables": former_tables})
    for server in (second, elsewhere):
        key = organization.api_key
        members = await request("GET", f"{server.url}/v1/orgs/{organization.id}/members", key=key)
        assert [member["role"] for member in members.body["items"]] == ["owner"]
        usage = await request("GET", f"{server.url}/v1/orgs/{organization.id}/ai/proxy-usage", key=key)
        assert usage.body["totals"]["requests"] == 0
        invited = await server.ok(
            "POST", f"/orgs/{organization.id}/invites", {"email": "a@b.example", "role": "viewer"}
        )
        person = await sign_up(server)
        assert (await person.call("POST", f"/v1/invites/{invited['token']}/accept")).status == 200
