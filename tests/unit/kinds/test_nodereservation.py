"""How a NodeReservation maps to a reservation of a node's units, which has no name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from relay_client import Cloud, Forbidden, NotFound, NotServed
from relay_operator.api.conditions import Reason
from relay_operator.api.meta import ObjectKey
from relay_operator.api.nodereservation import (
    LONGEST_ID,
    SHOWN_WORKLOADS,
    NodeReservation,
    NodeReservationStatus,
)
from relay_operator.engine.cache import Cache
from relay_operator.engine.entry import entry_of
from relay_operator.engine.fit_schema import moment
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.managed.abilities import is_part, unnamed
from relay_operator.flows.managed.resource import CannotTell, Inputs, Look, Progress
from relay_operator.kinds.nodereservation import NodeReservations
from relay_wire.reservations import Reservation
from tests.unit.client.scripted import Reply, page, scripted_server
from tests.unit.kinds.given import intent, parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import JsonValue


RACK = ObjectKey("ProviderNode", "team-a", "rack1")
SPEC: dict[str, JsonValue] = {
    "nodeRef": {"name": "rack1"},
    "unitIds": ["node_1-gpu1", "node_1-gpu0"],
    "allowedOrganizationIds": ["org-2"],
}
WHOLE: dict[str, JsonValue] = SPEC | {
    "managingOrganizationIds": ["org-3"],
    "startsAt": "2027-01-01T01:00:00+01:00",
    "endsAt": "2027-02-01T00:00:00Z",
    "contractRef": "acme",
    "reason": "a pilot",
}
THE_CLOUDS: dict[str, str] = {
    "allowedOrganizationIds": "allowedOrgIds",
    "managingOrganizationIds": "managingOrgIds",
}


def as_the_cloud_calls_it(spec: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return {THE_CLOUDS.get(name, name): value for name, value in spec.items() if name != "nodeRef"}


SENT: dict[str, JsonValue] = as_the_cloud_calls_it(WHOLE) | {"startsAt": "2027-01-01T00:00:00Z"}
INTENT = intent("team-a-acme", "node_1")
NODES = "/v1/orgs/org-1/provider/nodes"
PATH = f"{NODES}/node_1/reservations"
ABSENT = Reply(404, b'{"error": "no such thing", "code": "not_found"}')


def kind(cache: Cache | None = None) -> NodeReservations:
    return NodeReservations(parts(cache))


def asked(spec: dict[str, JsonValue] = SPEC, **status: JsonValue) -> NodeReservation:
    metadata = {"name": "acme", "namespace": "team-a"}
    return NodeReservation.model_validate({"metadata": metadata, "spec": spec, "status": {"partOf": "node_1"} | status})


def reserved(spec: dict[str, JsonValue] = SPEC, /, **fields: JsonValue) -> Reservation:
    """As the cloud shows it, which adds its own operations."""
    told: dict[str, JsonValue] = {"id": "rsv_1", "nodeId": "node_1", "status": "active"}
    told |= as_the_cloud_calls_it(spec)
    told["unitIds"] = ["node_1-gpu0", "node_1-gpu1"]
    told["allowedOrgIds"] = ["org-2", "org_platform_ops"]
    return Reservation.model_validate(told | fields)


def nodes(**statuses: str) -> Reply:
    rows = [{"id": node_id, "status": status} for node_id, status in statuses.items()]
    return Reply(body=json.dumps({"items": rows}).encode())


@pytest.mark.parametrize(
    ("spec", "sent"), [(SPEC, {"unitIds": SPEC["unitIds"], "allowedOrgIds": ["org-2"]}), (WHOLE, SENT)]
)
async def test_what_is_asked_for_is_sent(spec: dict[str, JsonValue], sent: dict[str, JsonValue]) -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(Reply(body=b'{"id": "rsv_1"}'))
        made = await kind().create(cloud, asked(spec), INTENT, Inputs())
    assert (server.seen[0].method, server.seen[0].target) == ("POST", PATH)
    assert json.loads(server.seen[0].body) == sent
    assert kind().identity(made) == ("rsv_1", "")
    assert kind().differences(asked(spec), made) == ()
    assert kind().progress(made) is Progress.READY


@pytest.mark.parametrize(
    ("node", "expected"), [("node_1", ()), (None, ()), ("node_2", ("nodeId: asked node_1, has node_2",))]
)
async def test_an_answer_about_another_node_is_about_another(node: str | None, expected: tuple[str, ...]) -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(Reply(body=json.dumps({"id": "rsv_1", "nodeId": node}).encode()))
        made = await kind().create(cloud, asked(), INTENT, Inputs())
    assert kind().of_another(asked(), INTENT, made) == expected


async def test_all_of_a_node_are_read_by_one_list() -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        reservations, status = kind(), NodeReservationStatus()
        server.will(page(reserved(), cursor="1"), page(reserved(id="rsv_2")))
        for cloud_id in ("rsv_1", "rsv_2"):
            assert (await reservations.observe(cloud, f"node_1/{cloud_id}", status, Look.ROUTINE)).id == cloud_id
        server.will(page(reserved()))
        with pytest.raises(NotFound, match="rsv_9 is not among the reservations of node_1"):
            await reservations.observe(cloud, "node_1/rsv_9", status, Look.EXACT)
        with pytest.raises(NotFound, match="the node of rsv_9 is not known"):
            await reservations.observe(cloud, "rsv_9", status, Look.EXACT)
        assert await reservations.find(cloud, "team-a-acme", UnclaimedIds()) == CannotTell()
        assert await reservations.living(cloud, UnclaimedIds()) == {}
    assert [each.target for each in server.seen] == [PATH, f"{PATH}?cursor=1", PATH]


async def test_what_equals_all_that_is_sent_is_alike_until_it_ends() -> None:
    own = reserved(WHOLE, id="rsv_7", startsAt="2027-01-01T00:00:00.000000Z")
    odds: tuple[dict[str, JsonValue], ...] = (
        {"unitIds": ["node_1-gpu0"]},
        {"unitIds": ["node_1-gpu0", "node_1-gpu2"]},
        {"allowedOrgIds": ["org-2", "org-4", "org_platform_ops"]},
        {"allowedOrgIds": ["org_platform_ops"]},
        {"managingOrgIds": ["org-3", "org-4"]},
        {"startsAt": "2027-01-01T00:00:01Z"},
        {"endsAt": "2027-02-01T00:00:01Z"},
        {"contractRef": "acme2"},
        {"reason": "another"},
        {"status": "ended"},
    )
    rows = [reserved(WHOLE, **odd).model_copy(update={"id": f"odd_{number}"}) for number, odd in enumerate(odds)]
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(page(*rows, own), page(own), page(*rows))
        assert await kind().alike(cloud, asked(WHOLE)) == [own]
        assert await kind().existing(cloud, asked(WHOLE)) == own
        assert await kind().existing(cloud, asked(WHOLE)) is None
        assert await kind().alike(cloud, asked(partOf=None)) == []
    assert kind().made_at(reserved(createdAt="2026-01-01T00:00:00Z")) == moment("2026-01-01T00:00:00Z")
    assert kind().made_at(reserved()) is None
    assert unnamed(kind())
    assert is_part(kind())


class Noted(list[str]):
    """Counts how often it is gone through."""

    times = 0

    def __iter__(self) -> Iterator[str]:
        self.times += 1
        return super().__iter__()


async def test_what_is_asked_is_worked_out_once_for_all_rows_and_a_row_only_as_far_as_it_is_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    units, reservations, obj = Noted(["node_1-gpu1", "node_1-gpu0"]), kind(), asked(WHOLE)
    obj = obj.model_copy(update={"spec": obj.spec.model_copy(update={"unit_ids": units})})
    own = [reserved(WHOLE, id=f"rsv_{number}") for number in range(9)]
    theirs = Noted(["node_1-gpu0"])
    odds: tuple[dict[str, JsonValue], ...] = ({"id": "odd_1", "reason": "x"}, {"id": "odd_2", "contractRef": "x"})
    others = [reserved(WHOLE, **odd).model_copy(update={"unit_ids": theirs}) for odd in odds]

    async def rows(*_: object) -> list[Reservation]:
        return [*others, *own]

    monkeypatch.setattr(reservations, "rows", rows)
    async with Cloud("http://localhost", "or_key", organization_id="org-1") as cloud:
        assert await reservations.alike(cloud, obj) == own
    assert (units.times, theirs.times) == (1, 0)


@pytest.mark.parametrize("more", ["managingOrganizationIds", "endsAt", "contractRef", "reason"])
async def test_what_has_more_than_is_sent_is_not_alike(more: str) -> None:
    row = reserved(SPEC | {more: WHOLE[more]})
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(page(row))
        assert await kind().alike(cloud, asked()) == []
    assert kind().differences(asked(), row) == ()  # nobody asked for another value


@pytest.mark.parametrize("status", [404, 405])
async def test_a_cloud_without_the_calls_says_so_and_a_node_that_is_gone_has_none(status: int) -> None:
    no_call, here = Reply(status), nodes(node_1="online", node_2="removed")
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(no_call, here)
        with pytest.raises(NotServed, match="has no list"):
            await kind().existing(cloud, asked())
        for gone in (nodes(node_1="removed"), nodes(node_2="online")):
            server.will(no_call, gone)
            assert await kind().existing(cloud, asked()) is None
        server.will(no_call, page(reserved()))
        with pytest.raises(NotServed, match="no call that deletes rsv_1: delete it in the cloud's console"):
            await kind().delete(cloud, "node_1/rsv_1")
        server.will(no_call, page())
        with pytest.raises(NotFound):
            await kind().delete(cloud, "node_1/rsv_1")
        server.will(Reply(403, b'{"error": "no", "code": "forbidden"}'))
        with pytest.raises(Forbidden):
            await kind().existing(cloud, asked())
    assert {each.target for each in server.seen} == {PATH, NODES, f"{PATH}/rsv_1"}


@pytest.mark.parametrize(
    ("lend", "state", "sends"),
    [
        (True, "active", "release"),
        (False, "released", "reclaim"),
        (True, "released", None),
        (False, "active", None),
        (None, "active", None),
        (None, "released", None),
        (True, "scheduled", None),
        (False, "scheduled", None),
        (True, "ended", None),
        (False, "ended", None),
        (True, None, None),
    ],
)
async def test_units_are_lent_and_taken_back_while_it_lasts(
    lend: bool | None, state: str | None, sends: str | None
) -> None:
    obj = asked(SPEC | {"lendToSpot": lend})
    changes = kind().changes(obj, reserved(status=state), running=True)
    assert [(change.name, change.reason) for change in changes] == ([(sends, Reason.UPDATING)] if sends else [])
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        for change in changes:
            server.will(Reply(body=b"{}"))
            await change.send(cloud)
    assert [(each.method, each.target) for each in server.seen] == (
        [("POST", f"{PATH}/rsv_1/{sends}")] if sends else []
    )


async def test_it_is_deleted_in_its_node() -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(Reply(status=204))
        await kind().delete(cloud, "node_1/rsv_1")
    assert (server.seen[0].method, server.seen[0].target) == ("DELETE", f"{PATH}/rsv_1")


def test_it_waits_for_its_node_until_it_is_made() -> None:
    raw: dict[str, JsonValue] = {"metadata": {"name": "acme", "namespace": "team-a"}, "spec": SPEC}
    assert kind().references(asked()) == entry_of(raw, "").named == (RACK,)
    assert kind().references(asked(id="rsv_1")) == ()
    assert kind().giving(asked(), reserved(), {RACK: "node_1"}) == ()


def test_its_node_is_the_one_that_the_object_has_now() -> None:
    cache = Cache()
    metadata: JsonValue = {"name": "rack1", "namespace": "team-a", "uid": "rack1", "resourceVersion": "1"}
    assert kind(cache).whole(asked()) == ""
    cache.put(RACK, {"metadata": metadata, "spec": {}, "status": {"id": "node_1"}})
    assert kind(cache).whole(asked()) == "node_1"


@pytest.mark.parametrize(
    ("state", "ends_at", "progress"),
    [
        ("scheduled", None, Progress.READY),
        ("active", None, Progress.READY),
        ("released", None, Progress.READY),
        ("ended", "2027-01-01T00:00:00Z", Progress.READY),
        ("ended", None, Progress.GONE),
        (None, None, Progress.READY),
    ],
)
def test_an_end_that_was_asked_for_is_as_asked(state: str | None, ends_at: str | None, progress: Progress) -> None:
    assert kind().progress(reserved(status=state, endsAt=ends_at)) is progress


def test_status_shows_what_the_list_has() -> None:
    seen = reserved(WHOLE, status="released", spotWorkloadIds=["vm_1", "", "cl_1"])
    status = kind().status(asked(), seen)
    assert status.model_dump(mode="json", exclude_none=True, exclude={"conditions", "observed_generation"}) == {
        "partOf": "node_1",
        "state": "released",
        "startsAt": "2027-01-01T00:00:00Z",
        "endsAt": "2027-02-01T00:00:00Z",
        "unitCount": 2,
        "spotWorkloadIds": ["vm_1", "cl_1"],
        "spotWorkloads": 2,
    }
    assert kind().detail(seen) == "the cloud has it as rsv_1, and says released"
    assert kind().detail(reserved(status=None)) == "the cloud has it as rsv_1"
    nobody = kind().status(asked(), reserved())
    assert (nobody.spot_workload_ids, nobody.spot_workloads) == (None, 0)


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_what_status_shows_of_many_is_bounded(more: int) -> None:
    ids: list[JsonValue] = [f"{number:03}".ljust(LONGEST_ID + more, "x") for number in range(SHOWN_WORKLOADS + more)]
    status = kind().status(asked(), reserved(spotWorkloadIds=ids))
    shown = status.spot_workload_ids or []
    assert (len(shown), status.spot_workloads) == (min(len(ids), SHOWN_WORKLOADS), len(ids))
    assert {len(each) for each in shown} == {min(LONGEST_ID + more, LONGEST_ID)}
    NodeReservationStatus.model_validate(status.model_dump())


def test_what_cannot_be_changed_is_compared_without_order_and_to_the_second() -> None:
    immutable = kind().immutable(asked(WHOLE))
    written: dict[str, JsonValue] = {"unitIds": ["node_1-gpu0", "node_1-gpu1"], "startsAt": "2027-01-01T00:00:00Z"}
    assert immutable == WHOLE | written | {"nodeRef": "rack1"}
    assert kind().immutable(asked(SPEC | {"managingOrganizationIds": []})) == kind().immutable(
        asked(SPEC | {"lendToSpot": True})
    )
    assert kind().differences(asked(WHOLE), reserved(WHOLE)) == ()
    assert kind().differences(asked(WHOLE), reserved(contractRef="x", allowedOrgIds=["a", "b"])) == (
        "allowedOrganizationIds: asked org-2, has a, b",
        "contractRef: asked acme, has x",
    )
