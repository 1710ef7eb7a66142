"""How an ApiKey maps to a key of the organization."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from relay_client import Cloud
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.managed.resource import Inputs, Look, Progress
from relay_operator.flows.managed.shown_once import Life, Place
from relay_operator.kinds.apikey import ApiKey, ApiKeys, ApiKeyStatus
from relay_wire.api_keys import ApiKeySummary
from tests.unit.client.scripted import Reply, scripted_server
from tests.unit.kinds.given import intent, parts

if TYPE_CHECKING:
    from pydantic import JsonValue


CANARY = "or_0123456789abcdef-canary"
MADE = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
INTENT = intent("team-a-ci")
CREATED = {
    "id": "key_1",
    "key": CANARY,
    "keyPrefix": "or_01234567",
    "name": "team-a-ci",
    "scopes": ["vms:read"],
    "createdAt": "2026-03-01T12:00:00Z",
    "organizationId": "org-1",
}


def keys() -> ApiKeys:
    return ApiKeys(parts())


def key(**spec: JsonValue) -> ApiKey:
    asked = {"scopes": ["vms:read"], "secretName": "ci-key", **spec}
    return ApiKey.model_validate({"metadata": {"name": "ci"}, "spec": asked})


def listed(**more: JsonValue) -> ApiKeySummary:
    return ApiKeySummary.model_validate({**CREATED, **more})


@pytest.mark.parametrize(
    ("spec", "sent", "expires"),
    [
        ({}, {}, None),
        ({"expiresInSeconds": 60}, {"expiresInSeconds": 60}, datetime(2026, 3, 1, 12, 1, tzinfo=UTC)),
    ],
)
async def test_what_is_sent_and_what_its_answer_shows(
    spec: dict[str, JsonValue], sent: dict[str, JsonValue], expires: datetime | None
) -> None:
    kind, obj = keys(), key(scopes=["vms:write", "vms:read"], **spec)
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(Reply(body=json.dumps(CREATED).encode()))
        made = await kind.create(cloud, obj, INTENT, Inputs())
        assert json.loads(server.seen[0].body) == {"name": "team-a-ci", "scopes": ["vms:read", "vms:write"], **sent}
    assert (kind.shown(made), kind.kept_in(obj)) == (CANARY, Place("ci-key", "api-key"))
    status = kind.status(obj, made)
    assert (status.prefix, status.expires_at, status.last_used_at) == ("or_01234567", expires, None)
    assert CANARY not in f"{made!r} {status!r} {kind.detail(made)} {kind.immutable(obj)}"


async def test_an_answer_without_the_key_is_unreadable_and_says_nothing_of_it() -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(Reply(body=json.dumps({**CREATED, "id": None}).encode()))
        with pytest.raises(Exception, match="cannot read the answer") as unreadable:
            await keys().create(cloud, key(), INTENT, Inputs())
        assert CANARY not in f"{unreadable.value!r} {unreadable.value.__cause__!r}"


def test_what_a_list_shows_has_no_value_and_what_is_revoked_is_gone() -> None:
    kind = keys()
    assert kind.shown(listed()) == ""
    assert kind.progress(listed()) is Progress.READY
    assert kind.progress(listed(revokedAt="2026-03-01T13:00:00Z")) is Progress.GONE


async def test_what_is_revoked_does_not_live() -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        rows = [CREATED, {**CREATED, "id": "key_2", "revokedAt": "2026-03-01T13:00:00Z"}]
        kind = keys()
        server.will(Reply(body=json.dumps(rows).encode()))
        await kind.observe(cloud, "key_1", ApiKeyStatus(), Look.ROUTINE)
        assert await kind.living(cloud, UnclaimedIds()) == {"key_1": "team-a-ci"}


@pytest.mark.parametrize(
    ("spec", "life"),
    [
        ({}, Life()),
        ({"expiresInSeconds": 60}, Life(MADE)),
        (
            {"expiresInSeconds": 60, "rotateBeforeSeconds": 20},
            Life(MADE, timedelta(seconds=20), timedelta(seconds=20)),
        ),
    ],
)
def test_how_long_it_opens_anything_and_when_another_takes_its_place(spec: dict[str, JsonValue], life: Life) -> None:
    assert keys().life(key(**spec).spec, ApiKeyStatus(expires_at=life.ends)) == life


def test_other_scopes_are_a_difference_in_whatever_order_they_come() -> None:
    kind = keys()
    assert kind.differences(key(scopes=["b", "a"]), listed(scopes=["a", "b"])) == ()
    assert kind.differences(key(scopes=["b"]), listed(scopes=["a", "b"])) == ("scopes: asked b, has a, b",)
    assert kind.immutable(key(scopes=["b", "a"])) == {"scopes": ["a", "b"], "expiresInSeconds": None}


async def test_an_odd_time_of_its_creation_does_not_lose_the_answer() -> None:
    kind, obj = keys(), key(expiresInSeconds=366 * 86_400)
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        for created, expires in (("soon", INTENT.started_at + timedelta(days=366)), ("9999-12-30T00:00:00Z", None)):
            server.will(Reply(body=json.dumps(CREATED | {"createdAt": created}).encode()))
            made = await kind.create(cloud, obj, INTENT, Inputs())
            assert (kind.shown(made), kind.status(obj, made).expires_at) == (CANARY, expires)


@pytest.mark.parametrize(
    ("of", "told", "tells"),
    [
        ("key_1", None, MADE),
        ("key_1", "never", MADE),
        ("key_1", "2026-03-02T12:00:00Z", MADE + timedelta(days=1)),
        ("key_0", None, None),
    ],
    ids=["not told", "not a time", "told", "another key's"],
)
def test_a_row_that_does_not_say_when_it_expires_changes_nothing(
    of: str, told: str | None, tells: datetime | None
) -> None:
    known = key().model_copy(update={"status": ApiKeyStatus(id=of, expires_at=MADE)})
    assert keys().status(known, listed(expiresAt=told)).expires_at == tells


@pytest.mark.parametrize(
    ("of", "told", "used", "tells"),
    [
        ("key_1", None, "2026-03-01T12:30:00Z", MADE.replace(minute=30)),
        ("key_1", MADE, "2026-03-01T12:30:00Z", MADE),
        ("key_1", MADE, "2026-03-01T13:30:00Z", MADE.replace(hour=13, minute=30)),
        ("key_1", MADE, None, MADE),
        ("key_0", MADE, None, None),
    ],
    ids=["first", "within the hour", "later", "not told", "another key's"],
)
def test_when_it_was_used_is_told_once_an_hour(
    of: str, told: datetime | None, used: str | None, tells: datetime | None
) -> None:
    known = key().model_copy(update={"status": ApiKeyStatus(id=of, last_used_at=told)})
    assert keys().status(known, listed(lastUsedAt=used)).last_used_at == tells
