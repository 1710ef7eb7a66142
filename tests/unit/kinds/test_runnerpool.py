"""How a RunnerPool maps to a pool of the organization, also in a cloud that has neither their list nor their end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from relay_client import BadRequest, Cloud, Forbidden, NotFound, NotServed
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.managed.resource import CannotTell, Inputs, Look, Progress
from relay_operator.kinds import unlisted
from relay_operator.kinds.runnerpool import RunnerPool, RunnerPools, RunnerPoolStatus
from relay_wire.runner_pools import RunnerPool as Pool
from tests.unit.client.scripted import Reply, scripted_server
from tests.unit.kinds.given import intent, parts

if TYPE_CHECKING:
    from pydantic import JsonValue


CANARY = "canary-of-the-grant"
INTENT = intent("team-a-ci")
SMALLEST: dict[str, JsonValue] = {"installationId": 42, "poolRamGb": 64}
WHOLE = SMALLEST | {"diskSizeGb": 200, "vcsOwner": "acme", "vcsOwnerType": "Organization"}
GRANT: dict[str, JsonValue] = {"grantFrom": {"secretKeyRef": {"name": "ci", "key": "grant"}}}
GRANTED = Inputs(texts={"grantFrom": f"{CANARY}\n"})
KNOWN = RunnerPoolStatus(id="rnp_1", cloud_name="team-a-ci", installation_id=42, pool_ram_gb=64, disk_size_gb=200)
NO_ROUTE = Reply(status=404, body=b'{"error": "no such path", "code": "not_found"}')
NO_BODY = Reply(status=404)
NO_METHOD = Reply(status=405)


def kind() -> RunnerPools:
    return RunnerPools(parts())


def pool(**spec: JsonValue) -> RunnerPool:
    return RunnerPool.model_validate({"metadata": {"name": "ci"}, "spec": spec or SMALLEST})


def listed(*ids: str) -> Reply:
    return Reply(body=json.dumps({"items": [{"id": one, "name": f"team-a-{one}"} for one in ids]}).encode())


@pytest.mark.parametrize(
    ("obj", "inputs", "sent"),
    [
        (pool(), Inputs(), SMALLEST),
        (pool(**WHOLE, **GRANT), GRANTED, WHOLE | {"grant": CANARY}),
        (pool(**SMALLEST | {"installationId": 9_007_199_254_740_993}), Inputs(), {"installationId": 2**53 + 1}),
    ],
    ids=["the smallest", "everything", "more than a float can count"],
)
async def test_what_is_sent_is_what_is_asked_and_the_name_of_the_attempt(
    obj: RunnerPool, inputs: Inputs, sent: dict[str, JsonValue]
) -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(Reply(body=b'{"id": "rnp_1", "name": "team-a-ci", "diskSizeGb": 50}'))
        made = await kind().create(cloud, obj, INTENT, inputs)
        assert json.loads(server.seen[0].body) == {**SMALLEST, "name": "team-a-ci", **sent}
        assert (made.id, made.pool_ram_gb, made.disk_size_gb) == ("rnp_1", 64, 50)
        assert CANARY not in repr((made, inputs, kind().status(obj, made), kind().immutable(obj)))


async def test_a_cloud_that_repeats_the_grant_is_not_repeated() -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(Reply(status=400, body=json.dumps({"error": f"no installation takes {CANARY}"}).encode()))
        with pytest.raises(BadRequest) as refused:
            await kind().create(cloud, pool(**SMALLEST, **GRANT), INTENT, GRANTED)
        assert "no installation takes" in str(refused.value)
        assert CANARY not in str(refused.value)


@pytest.mark.parametrize(
    ("grant", "says"),
    [
        (CANARY, None),
        (f"\n{CANARY * 200}\n", None),
        (CANARY * 300, "grantFrom: the key grant of the Secret ci has more than 4096 characters"),
        (" \n", "grantFrom: the key grant of the Secret ci is empty"),
    ],
)
def test_a_grant_that_cannot_be_sent_is_told(grant: str, says: str | None) -> None:
    assert kind().unusable(pool(**SMALLEST, **GRANT), Inputs(texts={"grantFrom": grant})) == says


def test_a_pool_needs_no_grant() -> None:
    assert kind().unusable(pool(), Inputs()) is None
    assert not kind().input_refs(pool()).any
    (source,) = kind().input_refs(pool(**SMALLEST, **GRANT)).texts.values()
    assert source.model_dump(exclude_none=True) == {
        "secretKeyRef": {"name": "ci", "key": "grant"},
        "optional": False,
    }


def test_a_difference_is_what_is_asked_and_is_otherwise() -> None:
    has = Pool.model_validate({"id": "rnp_1", **WHOLE})
    assert kind().differences(pool(), has) == kind().differences(pool(**WHOLE), has) == ()
    assert kind().differences(pool(**WHOLE), Pool(id="rnp_1")) == ()
    others: dict[str, JsonValue] = {"installationId": 43, "poolRamGb": 8, "diskSizeGb": 9, "vcsOwner": "b"}
    assert kind().differences(pool(**others, vcsOwnerType="User"), has) == (
        "installationId: asked 43, has 42",
        "poolRamGb: asked 8, has 64",
        "diskSizeGb: asked 9, has 200",
        "vcsOwner: asked b, has acme",
        "vcsOwnerType: asked User, has Organization",
    )
    assert kind().immutable(pool(**WHOLE)) == kind().immutable(pool(**WHOLE, **GRANT)) == WHOLE


async def test_what_status_shows_is_what_the_list_has() -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        row = {"id": "rnp_1", "name": "team-a-ci", **WHOLE}
        server.will(Reply(body=json.dumps({"items": [row]}).encode()))
        seen = await kind().observe(cloud, "rnp_1", KNOWN, Look.EXACT)
        status = kind().status(pool(), seen).model_dump(by_alias=True, exclude_none=True)
        assert {name: status[name] for name in WHOLE} == WHOLE
        assert kind().detail(seen) == "the cloud has it as rnp_1"


@pytest.mark.parametrize("answer", [NO_ROUTE, NO_BODY, NO_METHOD], ids=["no route", "no body", "no method"])
async def test_without_a_list_a_pool_is_taken_to_be_as_it_was_made(answer: Reply) -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(answer, answer, answer)
        seen = await kind().observe(cloud, "rnp_1", KNOWN, Look.ROUTINE)
        assert kind().identity(seen) == ("rnp_1", ""), "status cannot prove a name: somebody may have written it"
        assert kind().progress(seen) is Progress.READY
        assert "has no list by which to see whether it is still there" in kind().detail(seen)
        obj = pool().model_copy(update={"status": KNOWN})
        assert kind().status(obj, seen) == KNOWN
        with pytest.raises(NotServed, match="has no list"):
            await kind().observe(cloud, "rnp_2", KNOWN, Look.EXACT)
        assert await kind().find(cloud, "team-a-ci", UnclaimedIds()) == CannotTell()


async def test_a_list_that_fails_otherwise_is_not_taken_for_none() -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(Reply(status=403, body=b'{"error": "no"}'), listed("rnp_2"))
        with pytest.raises(Forbidden):
            await kind().observe(cloud, "rnp_1", KNOWN, Look.EXACT)
        with pytest.raises(NotFound):
            await kind().observe(cloud, "rnp_1", KNOWN, Look.EXACT)


@pytest.mark.parametrize("answer", [NO_ROUTE, NO_BODY, NO_METHOD], ids=["no route", "no body", "no method"])
async def test_without_list_and_deletion_a_person_is_told_to_delete_it(answer: Reply) -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        each = kind()
        server.will(answer, NO_METHOD, NO_METHOD)
        with pytest.raises(NotServed) as told:
            await each.delete(cloud, "rnp_1")
        assert told.value.message.endswith('so annotate gpurelay.dev/abandon="true" then')
        assert (await each.observe(cloud, "rnp_1", KNOWN, Look.EXACT)).id == "rnp_1"


async def test_without_a_list_the_answer_to_the_deletion_is_what_tells_of_the_end() -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        each = kind()
        server.will(Reply(status=204), NO_METHOD, NO_METHOD)
        await each.delete(cloud, "rnp_1")
        with pytest.raises(NotFound):
            await each.observe(cloud, "rnp_1", KNOWN, Look.EXACT)
        other = KNOWN.model_copy(update={"id": "rnp_2"})
        assert (await each.observe(cloud, "rnp_2", other, Look.EXACT)).id == "rnp_2"


async def test_of_the_deleted_only_the_last_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unlisted, "_REMEMBERED", 2)
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        each = kind()
        server.will(*[Reply(status=204)] * 3)
        for number in range(3):
            await each.delete(cloud, f"rnp_{number}")
    assert list(each._ended) == [(server.url, "org-1", "rnp_1"), (server.url, "org-1", "rnp_2")]


async def test_what_one_cloud_deleted_another_still_has() -> None:
    """A tenant's own cloud claims the organization of others, and gives its pool the id of theirs."""
    each = kind()
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(Reply(status=204))
        await each.delete(cloud, "rnp_1")
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(NO_METHOD, NO_METHOD)
        assert (await each.observe(cloud, "rnp_1", KNOWN, Look.EXACT)).id == "rnp_1"


@pytest.mark.parametrize("answer", [NO_ROUTE, NO_BODY, NO_METHOD], ids=["no route", "no body", "no method"])
async def test_with_a_list_that_tells_whether_a_pool_is_gone(answer: Reply) -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(answer, listed("rnp_2"), answer, listed("rnp_1"))
        with pytest.raises(NotFound):
            await kind().delete(cloud, "rnp_1")
        with pytest.raises(NotServed) as told:
            await kind().delete(cloud, "rnp_1")
        assert told.value.message == "the cloud has no call that deletes rnp_1: delete it in the cloud's console"


async def test_a_deletion_that_fails_otherwise_is_told_as_it_is() -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(Reply(status=403, body=b'{"error": "no"}'), listed("rnp_1"))
        with pytest.raises(Forbidden):
            await kind().delete(cloud, "rnp_1")


async def test_what_costs_money_is_looked_for_although_nobody_asked_for_the_list() -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(listed("ci"))
        assert await kind().living(cloud, UnclaimedIds()) == {"ci": "team-a-ci"}


async def test_that_the_list_is_refused_says_nothing_of_the_key() -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(Reply(status=401))
        with pytest.raises(NotServed):
            await kind().living(cloud, UnclaimedIds())
