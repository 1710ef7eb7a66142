"""How a ProvisioningToken maps to a token of a provider."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from relay_client import Cloud
from relay_operator.api.provisioningtoken import ProvisioningToken, ProvisioningTokenStatus
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.managed.resource import Inputs, Look, Progress
from relay_operator.flows.managed.shown_once import Life, Place
from relay_operator.kinds.provisioningtoken import ProvisioningTokens
from relay_wire.provider import ProvisioningToken as IssuedToken
from tests.unit.client.scripted import Reply, scripted_server
from tests.unit.kinds.given import intent, parts

if TYPE_CHECKING:
    from pydantic import JsonValue


CANARY = "prov_0123456789abcdef-canary"
ENDS = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
INTENT = intent("team-a-enrol")
ROW: dict[str, JsonValue] = {
    "id": "ptok_1",
    "name": "team-a-enrol",
    "nodeType": None,
    "nodePool": "community",
    "maxNodes": 2,
    "usedNodes": 1,
    "expiresAt": "2026-03-01T12:00:00Z",
    "createdAt": "2026-02-28T12:00:00Z",
}


def kind() -> ProvisioningTokens:
    return ProvisioningTokens(parts())


def token(**spec: JsonValue) -> ProvisioningToken:
    return ProvisioningToken.model_validate({"metadata": {"name": "enrol"}, "spec": {"secretName": "enrol", **spec}})


def listed(**more: JsonValue) -> IssuedToken:
    return IssuedToken.model_validate(ROW | more)


EVERYTHING: dict[str, JsonValue] = {"expiresInHours": 24, "maxNodes": 2, "nodeType": "hgx", "nodePool": "eu racks"}


@pytest.mark.parametrize(
    ("spec", "sent"),
    [({}, {"maxNodes": 0, "nodePool": "community"}), (EVERYTHING | {"renewBeforeSeconds": 60}, EVERYTHING)],
    ids=["nothing", "everything"],
)
async def test_what_is_sent_and_what_its_answer_shows(spec: dict[str, JsonValue], sent: dict[str, JsonValue]) -> None:
    tokens, obj = kind(), token(**spec)
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(Reply(body=json.dumps(ROW | {"token": CANARY}).encode()), Reply(status=204))
        made = await tokens.create(cloud, obj, INTENT, Inputs())
        await tokens.delete(cloud, made.id)
        assert [(each.method, each.target) for each in server.seen] == [
            ("POST", "/v1/orgs/org-1/provider/tokens"),
            ("DELETE", "/v1/orgs/org-1/provider/tokens/ptok_1"),
        ]
        assert json.loads(server.seen[0].body) == {"name": "team-a-enrol", **sent}
    assert (tokens.shown(made), tokens.kept_in(obj)) == (CANARY, Place("enrol", "token"))
    status = tokens.status(obj, made)
    assert (status.expires_at, status.max_nodes, status.used_nodes, status.node_pool) == (ENDS, 2, 1, "community")
    assert CANARY not in f"{made!r} {status!r} {tokens.detail(made)} {tokens.immutable(obj)}"


@pytest.mark.parametrize(
    ("answer", "ends"),
    [
        ({}, ENDS),
        ({"expiresAt": None}, datetime(2026, 2, 28, 14, 0, tzinfo=UTC)),
        ({"expiresAt": None, "createdAt": None}, INTENT.started_at + timedelta(hours=2)),
    ],
    ids=["told", "not told", "nothing told"],
)
async def test_when_it_expires_is_known_whatever_the_cloud_leaves_out(
    answer: dict[str, JsonValue], ends: datetime
) -> None:
    tokens, obj = kind(), token(expiresInHours=2)
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(Reply(body=json.dumps(ROW | {"token": CANARY} | answer).encode()))
        status = tokens.status(obj, await tokens.create(cloud, obj, INTENT, Inputs()))
    assert status.expires_at == ends
    settled = obj.model_copy(update={"status": status.model_copy(update={"id": "ptok_1"})})
    assert tokens.status(settled, listed(expiresAt=None)).expires_at == ends


@pytest.mark.parametrize("missing", ["id", "token"])
async def test_an_answer_that_lacks_what_counts_is_unreadable_and_says_nothing_of_the_token(missing: str) -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(Reply(body=json.dumps({**ROW, "token": CANARY, missing: None}).encode()))
        with pytest.raises(Exception, match="cannot read the answer") as unreadable:
            await kind().create(cloud, token(), INTENT, Inputs())
        assert CANARY not in f"{unreadable.value!r} {unreadable.value.__cause__!r}"


async def test_a_token_is_found_by_its_name_and_a_list_shows_no_value() -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        tokens = kind()
        server.will(Reply(body=json.dumps({"items": [ROW]}).encode()))
        seen = await tokens.observe(cloud, "ptok_1", ProvisioningTokenStatus(), Look.ROUTINE)
        assert await tokens.living(cloud, UnclaimedIds()) == {"ptok_1": "team-a-enrol"}
    assert (tokens.shown(seen), tokens.progress(seen), len(server.seen)) == ("", Progress.READY, 1)


@pytest.mark.parametrize(
    ("spec", "overlap", "least"),
    [
        ({}, None, timedelta()),
        ({"expiresInHours": 2}, None, timedelta()),
        ({"expiresInHours": 2, "renewBeforeSeconds": 3600}, timedelta(hours=1), timedelta(minutes=30)),
    ],
)
def test_how_long_machines_can_join_and_when_another_takes_its_place(
    spec: dict[str, JsonValue], overlap: timedelta | None, least: timedelta
) -> None:
    life = kind().life(token(**spec).spec, ProvisioningTokenStatus(expires_at=ENDS))
    assert life == Life(ENDS, overlap, least, "renewBeforeSeconds")


@pytest.mark.parametrize(
    ("spec", "row", "differs"),
    [
        ({"maxNodes": 2}, {}, ()),
        ({"maxNodes": 2, "nodePool": "community", "expiresInHours": 9}, {"nodeType": "hgx"}, ()),
        ({}, {"maxNodes": None, "nodePool": None}, ()),
        ({}, {}, ("maxNodes: asked 0, has 2",)),
        (
            {"maxNodes": 2, "nodePool": "eu", "nodeType": "hgx"},
            {"nodeType": "pcie"},
            ("nodeType: asked hgx, has pcie", "nodePool: asked eu, has community"),
        ),
    ],
)
def test_what_the_cloud_has_otherwise_is_a_difference(
    spec: dict[str, JsonValue], row: dict[str, JsonValue], differs: tuple[str, ...]
) -> None:
    assert kind().differences(token(**spec), listed(**row)) == differs


def test_defaults_written_out_are_no_change() -> None:
    assert kind().immutable(token()) == kind().immutable(token(maxNodes=0, nodePool="community"))
    assert kind().immutable(token()) != kind().immutable(token(expiresInHours=24))


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({}, "the cloud has it as ptok_1; joined with it: 1 of 2"),
        ({"maxNodes": 0}, "the cloud has it as ptok_1; joined with it: 1"),
        ({"usedNodes": None}, "the cloud has it as ptok_1"),
    ],
)
def test_how_many_joined_with_it_is_told(row: dict[str, JsonValue], says: str) -> None:
    assert kind().detail(listed(**row)) == says
