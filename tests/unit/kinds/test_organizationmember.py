"""How an OrganizationMember maps to a member of the organization; the last owner is left alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from pydantic import ValidationError

from relay_client import Cloud, Conflict, Outcome
from relay_operator.api.conditions import Reason
from relay_operator.api.meta import ObjectKey
from relay_operator.api.parts import DeletionPolicy
from relay_operator.engine.cache import Cache
from relay_operator.engine.report import LAST_OWNER, refused
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.managed.ending import parse
from relay_operator.flows.managed.resource import Inputs
from relay_operator.kinds.organizationmember import OrganizationMember, OrganizationMembers
from relay_wire.orgs import Member
from tests.unit.client.scripted import Reply, page, scripted_server
from tests.unit.kinds.given import intent, parts

if TYPE_CHECKING:
    from pydantic import JsonValue


INTENT = intent("team-a-ada")
ADA: dict[str, JsonValue] = {"userId": "usr_1", "email": "ada@x.example", "role": "owner"}
BOB: dict[str, JsonValue] = {"userId": "usr_2", "email": "bob@x.example", "role": "owner"}


def kind(cache: Cache | None = None) -> OrganizationMembers:
    return OrganizationMembers(parts(cache))


def person(role: str = "member", email: str = "Ada@x.example") -> OrganizationMember:
    return OrganizationMember.model_validate({"metadata": {"name": "ada"}, "spec": {"email": email, "role": role}})


def member(row: dict[str, JsonValue]) -> Member:
    return Member.model_validate(row)


@pytest.mark.parametrize(("asked", "sent"), [("owner", "admin"), ("admin", "admin"), ("viewer", "viewer")])
async def test_an_owner_is_added_as_admin_and_made_owner_then(asked: str, sent: str) -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(Reply(body=json.dumps(ADA | {"role": sent}).encode()))
        made = await kind().create(cloud, person(asked), INTENT, Inputs())
        assert json.loads(server.seen[0].body) == {"email": "Ada@x.example", "role": sent}
        changes = kind().changes(person(asked), made, running=True)
        assert [(each.name, each.to, each.reason) for each in changes] == (
            [] if asked == sent else [("role", asked, Reason.UPDATING)]
        )
        assert kind().identity(made) == ("usr_1", "")


@pytest.mark.parametrize("unseen", ["\u200b", "\u00ad"], ids=["zero-width space", "soft hyphen"])
def test_an_e_mail_is_one_that_the_request_can_say(unseen: str) -> None:
    with pytest.raises(ValidationError, match="printable characters"):
        person(email=f"ada{unseen}@x.example")


async def test_a_person_is_known_by_e_mail_however_it_is_written() -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(page(BOB, {"userId": "usr_3", "role": "viewer"}, ADA))
        assert await kind().existing(cloud, person(email="ADA@X.example")) == member(ADA)
        server.will(page(BOB))
        assert await kind().existing(cloud, person()) is None
        assert await kind().living(cloud, UnclaimedIds()) == {}
    assert (
        kind().differences(person(), member(ADA)) == kind().differences(person(), member(ADA | {"email": None})) == ()
    )
    assert kind().differences(person(), member(BOB)) == ("email: asked ada@x.example, has bob@x.example",)
    assert kind().immutable(person()) == kind().immutable(person("viewer", "ada@X.example"))


async def test_one_without_an_e_mail_may_be_any_that_no_other_object_has() -> None:
    cache, other = Cache(), ObjectKey("OrganizationMember", "team-a", "other")
    metadata: JsonValue = {"name": "other", "namespace": "team-a", "uid": "u-2", "resourceVersion": "1"}
    cache.put(other, {"metadata": metadata, "spec": {"email": "x@x.example"}, "status": {"id": "usr_3"}})
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        for user, may_exist in (("usr_3", False), ("usr_4", True)):
            server.will(page(BOB, {"userId": user, "role": "viewer"}))
            assert await kind(cache).may_exist(cloud, person()) is may_exist


@pytest.mark.parametrize(
    ("email", "expected"),
    [("ADA@x.example", ()), (None, ()), ("bob@x.example", ("email: asked ada@x.example, has bob@x.example",))],
)
def test_an_answer_with_another_e_mail_is_about_another(email: str | None, expected: tuple[str, ...]) -> None:
    assert kind().of_another(person(), INTENT, member(ADA | {"email": email})) == expected


async def test_a_role_is_changed_in_place_and_a_member_removed() -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        (change,) = kind().changes(person("viewer"), member(ADA), running=True)
        server.will(page(ADA, BOB), Reply(body=json.dumps(ADA | {"role": "viewer"}).encode()))
        await change.send(cloud)
        server.will(page(BOB, cursor="1"), page(ADA), Reply(status=204))
        await kind().delete(cloud, "usr_2")
    path = "/v1/orgs/org-1/members"
    assert [(each.method, each.target) for each in server.seen] == [
        ("GET", path),
        ("PATCH", f"{path}/usr_1"),
        ("GET", path),
        ("GET", f"{path}?cursor=1"),
        ("DELETE", f"{path}/usr_2"),
    ]
    assert json.loads(server.seen[1].body) == {"role": "viewer"}


async def test_nothing_is_sent_about_the_last_owner() -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        (change,) = kind().changes(person("viewer"), member(ADA), running=True)
        for attempt in (change.send(cloud), kind().delete(cloud, "usr_1")):
            server.will(page(ADA, BOB | {"role": "admin"}))
            with pytest.raises(Conflict) as told:
                await attempt
            assert (told.value.code, told.value.outcome) == (LAST_OWNER, Outcome.NOT_SENT)
            report = refused(told.value)
            assert (report.trouble, report.reason) == ("Stalled", Reason.LAST_OWNER)
            assert "make somebody else an owner first" in report.message
    assert [each.method for each in server.seen] == ["GET", "GET"]


@pytest.mark.parametrize(("role", "reason"), [("owner", Reason.LAST_OWNER), ("admin", Reason.CONFLICT)])
async def test_what_the_cloud_refuses_of_an_owner_is_that_it_is_the_last(role: str, reason: Reason) -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(page(ADA | {"role": role}, BOB), Reply(status=409, body=b'{"error": "no", "code": "conflict"}'))
        with pytest.raises(Conflict) as told:
            await kind().delete(cloud, "usr_1")
        assert (refused(told.value).reason, told.value.message) == (reason, "no")


@pytest.mark.parametrize(
    ("policy", "ends"), [({}, DeletionPolicy.ORPHAN), ({"deletionPolicy": "Delete"}, DeletionPolicy.DELETE)]
)
def test_nobody_is_removed_unless_people_say_so_even_if_the_rest_cannot_be_read(
    policy: dict[str, str], ends: DeletionPolicy
) -> None:
    metadata = {"name": "ada", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    body = {"metadata": metadata, "spec": {"email": ["ada"], "role": "king", **policy}}
    assert parse(OrganizationMember, json.dumps(body).encode()).spec.deletion_policy is ends
    assert person().spec.deletion_policy is DeletionPolicy.ORPHAN


def test_status_shows_what_the_list_has() -> None:
    status = kind().status(person(), member(ADA))
    assert (status.email, status.role) == ("ada@x.example", "owner")
    assert kind().detail(member(ADA)) == "the cloud has it as usr_1, with the role owner"
