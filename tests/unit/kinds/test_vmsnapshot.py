"""How a VmSnapshot maps to a snapshot of a VM, which is known by the name that people gave it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from relay_client import Cloud, Forbidden, NotFound, NotServed, Unreadable
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.cache import Cache
from relay_operator.engine.entry import entry_of
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.managed.resource import CannotTell, Inputs, Look, Progress
from relay_operator.kinds.vmsnapshot import MOST_PAGES, VmSnapshot, VmSnapshots, VmSnapshotStatus
from relay_wire.snapshots import Snapshot
from tests.unit.client.scripted import Reply, scripted_server
from tests.unit.kinds.given import intent, parts

if TYPE_CHECKING:
    from pydantic import JsonValue


BOX = ObjectKey("GpuVm", "team-a", "box")
SPEC: dict[str, JsonValue] = {"vmRef": {"name": "box"}, "name": "before upgrade"}
INTENT = intent("team-a-nightly", "vm_1")
PATH = "/v1/vms/vm_1/snapshots"
ABSENT = Reply(404, b'{"error": "no such thing", "code": "not_found"}')


def record(status: str) -> Reply:
    """What the cloud says of the VM."""
    return Reply(body=json.dumps({"id": "vm_1", "name": "team-a-box", "status": status}).encode())


def kind(cache: Cache | None = None) -> VmSnapshots:
    return VmSnapshots(parts(cache))


def shot(**status: JsonValue) -> VmSnapshot:
    metadata = {"name": "nightly", "namespace": "team-a"}
    return VmSnapshot.model_validate({"metadata": metadata, "spec": SPEC, "status": status})


def taken(**fields: JsonValue) -> Snapshot:
    told = {"id": "snap_1", "vmId": "vm_1", "name": "before upgrade", "status": "ready", **fields}
    return Snapshot.model_validate(told)


def page(*rows: Snapshot, cursor: str | None = None) -> Reply:
    items = [row.model_dump(by_alias=True) for row in rows]
    return Reply(body=json.dumps({"items": items, "nextCursor": cursor}).encode())


async def test_the_name_is_sent_as_it_is_written() -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(Reply(body=b'{"id": "snap_1"}'))
        made = await kind().create(cloud, shot(), INTENT, Inputs())
    assert (server.seen[0].method, server.seen[0].target) == ("POST", f"{PATH}/create")
    assert json.loads(server.seen[0].body) == {"name": "before upgrade"}
    assert (kind().identity(made), made.vm_id) == (("snap_1", "before upgrade"), "vm_1")
    assert kind().progress(made) is Progress.READY


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({}, ()),
        ({"name": "Before  Upgrade", "vmId": "vm_1"}, ()),
        ({"name": "another"}, ("name: asked before upgrade, has another",)),
        ({"vmId": "vm_2"}, ("vmId: asked vm_1, has vm_2",)),
    ],
)
async def test_an_answer_about_another_snapshot_says_so(told: dict[str, str], expected: tuple[str, ...]) -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(Reply(body=json.dumps({"id": "snap_1", **told}).encode()))
        made = await kind().create(cloud, shot(), INTENT, Inputs())
    assert kind().of_another(shot(), INTENT, made) == expected
    assert kind().identity(made) == ("snap_1", told.get("name", "before upgrade"))


async def test_one_whose_name_is_spelled_otherwise_may_be_this_one() -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        for name, may_exist in (("BEFORE  upgrade ", True), ("before-upgrade", False), ("before upgrade", False)):
            server.will(page(taken(name=name)))
            assert await kind().may_exist(cloud, shot(partOf="vm_1")) is may_exist


async def test_all_of_a_vm_are_read_by_one_list_and_each_vm_has_its_own() -> None:
    own, other = taken(), taken(id="snap_2", name="other")
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        shots, status = kind(), VmSnapshotStatus()
        server.will(page(own, cursor="more"), page(other))
        assert await shots.observe(cloud, "vm_1/snap_1", status, Look.ROUTINE) == own
        assert await shots.observe(cloud, "vm_1/snap_2", status, Look.ROUTINE) == other
        server.will(page(taken(id="snap_3", vmId="vm_2")))
        for _ in range(2):
            assert (await shots.observe(cloud, "vm_2/snap_3", status, Look.ROUTINE)).id == "snap_3"
        server.will(page(own))
        assert await shots.observe(cloud, "vm_1/snap_1", status, Look.EXACT) == own
        server.will(page(own))
        with pytest.raises(NotFound, match="snap_9 is not among the snapshots of vm_1"):
            await shots.observe(cloud, "vm_1/snap_9", status, Look.ROUTINE)
        with pytest.raises(NotFound, match="the VM of snap_9 is not known"):
            await shots.observe(cloud, "snap_9", status, Look.EXACT)
    lists = [PATH, f"{PATH}?cursor=more", "/v1/vms/vm_2/snapshots", PATH, PATH]
    assert [each.target for each in server.seen] == lists


async def test_a_list_without_an_end_tells_nothing() -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(*(page(cursor=str(number)) for number in range(MOST_PAGES)))
        with pytest.raises(Unreadable, match="more than 100 pages"):
            await kind().existing(cloud, shot(partOf="vm_1"))


async def test_one_of_that_name_is_looked_for_in_its_vm() -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        shots = kind()
        assert await shots.existing(cloud, shot()) is None
        server.will(page(taken(id="snap_2", name="other"), taken()))
        assert await shots.existing(cloud, shot(partOf="vm_1")) == taken()
        server.will(page())
        assert await shots.existing(cloud, shot(partOf="vm_1")) is None
        assert await shots.find(cloud, "team-a-nightly", UnclaimedIds()) == CannotTell()
        assert await shots.living(cloud, UnclaimedIds()) == {}


async def test_of_two_of_that_name_the_one_is_found_that_no_other_object_has() -> None:
    cache, other = Cache(), ObjectKey("VmSnapshot", "team-a", "other")
    metadata: JsonValue = {"name": "other", "namespace": "team-a", "uid": "u-2", "resourceVersion": "1"}
    cache.put(other, {"metadata": metadata, "spec": SPEC, "status": {"id": "snap_1", "partOf": "vm_1"}})
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(page(taken(), taken(id="snap_2")), page(taken()))
        assert await kind(cache).existing(cloud, shot(partOf="vm_1")) == taken(id="snap_2")
        assert await kind(cache).existing(cloud, shot(partOf="vm_1")) == taken(), "it is told whose it is"


async def test_one_without_a_name_may_be_any_that_no_other_object_has() -> None:
    cache, other = Cache(), ObjectKey("VmSnapshot", "team-a", "other")
    metadata: JsonValue = {"name": "other", "namespace": "team-a", "uid": "u-2", "resourceVersion": "1"}
    cache.put(other, {"metadata": metadata, "spec": SPEC, "status": {"id": "snap_1", "partOf": "vm_1"}})
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        for rows, may_exist in (([taken(name=None)], False), ([taken(id="snap_2", name=None)], True), ([], False)):
            server.will(page(*rows, taken(id="snap_3")))
            assert await kind(cache).may_exist(cloud, shot(partOf="vm_1")) is may_exist


@pytest.mark.parametrize("no_list", [Reply(404), Reply(405), ABSENT], ids=["no body", "no method", "no such thing"])
@pytest.mark.parametrize("vm", [ABSENT, record("terminated")], ids=["forgotten", "terminated"])
async def test_a_vm_that_is_gone_has_none_whatever_its_list_answers(no_list: Reply, vm: Reply) -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(no_list, vm)
        assert await kind().existing(cloud, shot(partOf="vm_1")) is None
        server.will(no_list, vm)
        with pytest.raises(NotFound):
            await kind().observe(cloud, "vm_1/snap_1", VmSnapshotStatus(), Look.EXACT)
    assert [each.target for each in server.seen] == [PATH, "/v1/vms/vm_1"] * 2


@pytest.mark.parametrize("no_list", [Reply(404), Reply(405), ABSENT], ids=["no body", "no method", "no such thing"])
async def test_a_cloud_without_the_list_tells_nothing_of_what_would_be_in_it(no_list: Reply) -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(no_list, record("running"))
        with pytest.raises(NotServed, match="has no list"):
            await kind().existing(cloud, shot(partOf="vm_1"))
        server.will(no_list, record("running"))
        with pytest.raises(NotServed, match="has no list"):
            await kind().observe(cloud, "vm_1/snap_1", VmSnapshotStatus(), Look.EXACT)
        server.will(Reply(403, b'{"error": "no", "code": "forbidden"}'))
        with pytest.raises(Forbidden):
            await kind().existing(cloud, shot(partOf="vm_1"))


@pytest.mark.parametrize("no_end", [Reply(404), Reply(405), ABSENT], ids=["no body", "no method", "no such thing"])
async def test_a_cloud_that_deletes_none_says_so_and_what_is_not_listed_is_gone(no_end: Reply) -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(no_end, page(taken()))
        with pytest.raises(NotServed, match="no call that deletes snap_1: delete it in the cloud's console"):
            await kind().delete(cloud, "vm_1/snap_1")
        server.will(no_end, page())
        with pytest.raises(NotFound):
            await kind().delete(cloud, "vm_1/snap_1")
        server.will(Reply(403, b'{"error": "no", "code": "forbidden"}'))
        with pytest.raises(Forbidden):
            await kind().delete(cloud, "vm_1/snap_1")


async def test_it_is_deleted_in_its_vm() -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(Reply(status=204))
        await kind().delete(cloud, "vm_1/snap_1")
    assert (server.seen[0].method, server.seen[0].target) == ("DELETE", f"{PATH}/snap_1")


def test_it_waits_for_its_vm_until_it_is_made() -> None:
    raw: dict[str, JsonValue] = {"metadata": {"name": "nightly", "namespace": "team-a"}, "spec": SPEC}
    assert kind().references(shot()) == entry_of(raw, "").named == (BOX,)
    assert kind().references(shot(id="snap_1")) == ()
    assert kind().giving(shot(), taken(), {BOX: "vm_1"}) == ()


def test_its_vm_is_the_one_that_the_object_has_now_if_both_use_one_account() -> None:
    cache = Cache()
    account: JsonValue = {"kind": "CloudAccount", "name": "other"}

    def put(key: ObjectKey, spec: dict[str, JsonValue], version: int) -> None:
        metadata: JsonValue = {
            "name": key.name,
            "namespace": "team-a",
            "uid": key.name,
            "resourceVersion": f"{version}",
        }
        cache.put(key, {"metadata": metadata, "spec": spec, "status": {"id": "vm_1"} if key == BOX else {}})

    assert kind(cache).whole(shot()) == ""
    put(BOX, {"accountRef": account}, 1)
    assert kind(cache).whole(shot()) == "vm_1"  # of one that vanished nobody knows more
    put(shot().key, {"accountRef": account, **SPEC}, 2)
    assert kind(cache).whole(shot()) == "vm_1"
    put(shot().key, {"accountRef": {"kind": "CloudAccount", "name": "mine"}, **SPEC}, 3)
    assert kind(cache).whole(shot()) == ""


@pytest.mark.parametrize("vm_id", ["vm_" + "1" * 300, "../vm_2", ""])
def test_a_vm_whose_id_is_none_is_the_one_that_it_is_taken_of(vm_id: str) -> None:
    held = kind().status(shot(partOf="vm_1"), taken(vmId=vm_id, status="creating")).references
    assert [one.id for one in held or ()] == ["vm_1"]


@pytest.mark.parametrize(
    ("state", "progress", "held"),
    [
        ("creating", Progress.PENDING, True),
        ("archived", Progress.PENDING, False),
        ("ready", Progress.READY, False),
        ("failed", Progress.FAILED, False),
        (None, Progress.READY, False),
    ],
)
def test_the_vm_is_held_while_it_is_being_made(state: str | None, progress: Progress, held: bool) -> None:
    seen = taken(status=state)
    assert kind().progress(seen) is progress
    status = kind().status(shot(id="snap_1", partOf="vm_1"), seen)
    held_now = [each.model_dump() for each in status.references or ()]
    assert held_now == ([{"kind": "GpuVm", "name": "box", "id": "vm_1"}] if held else [])


def test_status_shows_what_the_list_has() -> None:
    seen = taken(sizeGb=80, createdAt="2026-01-01T00:00:00Z", status="failed", statusReason="the node is away")
    status = kind().status(shot(), seen)
    assert status.model_dump(mode="json", exclude_none=True, exclude={"conditions", "observed_generation"}) == {
        "state": "failed",
        "statusReason": "the node is away",
        "sizeGb": 80,
        "createdAt": "2026-01-01T00:00:00Z",
    }
    assert kind().detail(seen) == "the cloud has it as snap_1, and says failed: the node is away"
    assert kind().detail(taken(status=None)) == "the cloud has it as snap_1"


def test_neither_the_vm_nor_the_name_can_be_another() -> None:
    assert kind().immutable(shot()) == {"vmRef": "box", "name": "before upgrade"}
    assert kind().differences(shot(), taken()) == kind().differences(shot(), taken(name=None)) == ()
    assert kind().differences(shot(), taken(name="x")) == ("name: asked before upgrade, has x",)
