"""An object that goes in the moment in which its finalizer is written is taken to its end all the same."""

import json
import logging
from dataclasses import replace

import orjson
import pytest
from pydantic import JsonValue

from relay_kube.errors import Conflict, NotFound
from relay_operator.api.meta import ADOPT_ID, ANNOTATION_PREFIX, CREATE_INTENT, FINALIZER, PAUSED, PLAN_ONLY, ObjectKey
from relay_operator.engine.leftover import Fate, Leftover
from relay_operator.engine.vanished import DepartedObject, Vanished
from tests.unit.engine.apiserver import Fault, Json, part
from tests.unit.flows.managed.cloudpods import POD, lost
from tests.unit.flows.managed.world import BEGINNING, NAMESPACE, OPERATOR_NAMESPACE, World, at_the_status_write, many

REFUSED = Fault(403, plural="configmaps", times=1000)


@pytest.fixture
def ending(world: World) -> World:
    """Nothing of the cloud ends by being asked: what was terminated is seen only later."""
    world.pods.fail("delete", *[lost(acted=False)] * 3)
    return world


async def _vanished(world: World) -> None:
    """It goes right after its id was written."""
    world.apply()
    await world.settle()
    world.vanish()


async def test_what_it_has_is_terminated_and_nothing_is_left(world: World) -> None:
    await _vanished(world)
    await world.wait(10)
    assert (len(world.pods.created), world.pods.live, world.left_behind()) == (1, [], [])
    assert list(world.cache.keys()) == []


async def test_it_is_terminated_where_it_goes_before_its_id_is_written(world: World) -> None:
    at_the_status_write(world, world.vanish)
    world.apply()
    await world.wait(10)
    assert (len(world.pods.created), world.pods.live, world.left_behind()) == (1, [], [])


async def test_it_is_terminated_although_people_keep_another_of_its_name(world: World) -> None:
    """People give any name to what they bring in."""
    for name, policy in (("first", "Orphan"), ("second", "Delete")):
        brought = world.pods.add("training", fields=POD)
        world.apply(name, deletionPolicy=policy, annotations={ADOPT_ID: brought.id})
    await world.wait(10)
    world.delete("first")
    await world.wait(10)
    world.vanish("second")
    await world.wait(60)
    assert [record.id for record in world.pods.live] == ["pod-1"]


async def test_what_people_answer_as_it_goes_is_not_lost_to_whoever_has_not_seen_it(world: World) -> None:
    def abandoned() -> None:
        world.annotate(abandon="true")
        world.vanish()

    at_the_status_write(world, abandoned)
    world.apply()
    await world.wait(10)
    assert [record.id for record in world.pods.live] == ["pod-1"]


async def test_its_id_is_not_lost_to_an_event_that_comes_late(world: World) -> None:
    world.pods.listable = False
    last_word: list[Json] = []

    def unseen() -> None:
        last_word.append(world.raw())
        world.watching = False
        world.vanish()

    at_the_status_write(world, unseen)
    world.pods.fail("delete", lost(acted=False))
    world.apply()
    await world.settle()
    world.informer.gone("GpuPod", last_word[0])
    await world.wait(30)
    assert (world.pods.live, world.left_behind()) == ([], [])


async def test_no_id_of_a_part_is_lost_to_an_event_that_comes_late(world: World) -> None:
    """An object of several parts has an id already when the id of another part cannot be written any more."""
    metadata: Json = {"name": "split", "namespace": NAMESPACE, "uid": "uid-1", "annotations": {CREATE_INTENT: "{}"}}
    first: Json = {"id": "batch-1", "parts": [{"batchId": "batch-1"}, {"sentAt": "2026-03-01T12:00:00Z"}]}
    both: Json = {"id": "batch-2", "parts": [{"batchId": "batch-1"}, {"batchId": "batch-2"}]}
    key, vanished = ObjectKey("GpuPod", NAMESPACE, "split"), world.informer.vanished
    for statuses in ((both, first), (first, both)):
        for status in statuses:
            own = vanished.take_over(key, {"metadata": metadata, "status": status})
        assert vanished.body(own)["status"] == both
        vanished.drop(own)


async def test_it_is_terminated_where_the_answer_was_lost_and_the_id_is_told_later(world: World) -> None:
    world.pods.listable = False
    world.pods.fail("create", lost(acted=True))
    world.apply()
    await world.one_pass()
    world.vanish()
    await world.wait(10)
    assert len(world.pods.live) == 1
    world.account.ready.unclaimed.add("pod-1")
    await world.wait(120)
    assert (len(world.pods.created), world.pods.live, world.left_behind()) == (1, [], [])


async def test_a_namesake_has_its_own(world: World) -> None:
    await _vanished(world)
    world.apply()
    await world.wait(10)
    assert [record.id for record in world.pods.live] == [world.status().id] == ["pod-2"]


async def test_what_another_object_has_by_now_is_left_to_it(world: World) -> None:
    """The object was restored, and took over what a frozen leader then handed over as its former self's."""
    world.apply()
    await world.settle()
    former: Json = json.loads(json.dumps(world.raw()).replace(world.obj().metadata.uid, "of-the-former-one"))
    world.informer.vanished.take_over(ObjectKey("GpuPod", NAMESPACE, "train"), former)
    await world.wait(60)
    assert [record.id for record in world.pods.live] == [world.status().id] == ["pod-1"]
    assert (world.pods.count("delete"), world.left_behind()) == (0, [])


async def test_orphan_leaves_it(world: World) -> None:
    world.apply(deletionPolicy="Orphan")
    await world.settle()
    world.vanish()
    await world.wait(10)
    assert [record.id for record in world.pods.live] == ["pod-1"]
    (kept,) = world.left_behind()
    assert part(part(kept, "metadata"), "labels") == {"gpurelay.dev/leftover": "kept"}
    assert "pod-1" in str(part(kept, "data")["resource.json"])


async def test_a_pause_that_nobody_could_end_ends_with_it(world: World) -> None:
    world.apply()
    await world.settle()
    world.annotate(paused="true")
    await world.settle()
    world.vanish()
    await world.wait(10)
    assert world.pods.live == []


async def test_what_is_forced_away_is_left(world: World) -> None:
    world.apply()
    await world.settle()
    world.delete(force=True)
    await world.wait(10)
    assert (len(world.pods.live), world.left_behind()) == (1, [])


async def test_a_list_is_no_word_on_it(ending: World) -> None:
    await _vanished(ending)
    await ending.one_pass()
    await ending.informer.relist(ending.kube, "GpuPod", ending.flow.type, ())
    await ending.wait(60)
    assert ending.pods.live == []


async def test_the_next_process_goes_on(ending: World) -> None:
    await _vanished(ending)
    await ending.one_pass()
    (kept,) = ending.left_behind()
    left = json.loads(str(part(kept, "data")["object.json"]))
    assert (left["kind"], left["status"]["id"], left["metadata"]["finalizers"]) == ("GpuPod", "pod-1", [FINALIZER])
    assert len(ending.pods.live) == 1
    await ending.restart()
    await ending.informer.vanished.load()
    await ending.wait(60)
    assert (ending.pods.live, ending.left_behind()) == ([], [])


async def test_the_process_ends_only_once_the_next_one_can_go_on(ending: World) -> None:
    """The object goes just before its id is written, and the ConfigMap is not taken at once."""
    at_the_status_write(ending, ending.vanish)
    ending.server.faults.append(Fault(500, plural="configmaps", times=3))
    ending.apply()
    await ending.one_pass()
    assert ending.left_behind() == []
    await ending.reconciler.persist()
    await ending.restart()
    await ending.wait(60)
    assert (len(ending.pods.created), ending.pods.live, ending.left_behind()) == (1, [], [])


async def test_what_goes_while_no_pass_is_begun_any_more_is_left_to_the_next_process(ending: World) -> None:
    await _vanished(ending)
    await ending.reconciler.persist()
    await ending.restart()
    await ending.wait(60)
    assert (ending.pods.live, ending.left_behind()) == ([], [])


async def test_what_is_forced_away_while_no_pass_is_begun_any_more_is_recorded(world: World) -> None:
    world.apply()
    await world.settle()
    world.delete(force=True)
    world.server.faults.append(Fault(500, plural="configmaps"))
    await world.reconciler.persist()
    await world.restart()
    (orphan,) = world.informer.vanished.leftovers.of(ObjectKey("CloudAccount", NAMESPACE, "default"))
    assert (orphan.fate, orphan.id) == (Fate.ORPHAN, "pod-1")


async def test_a_process_ends_although_what_is_left_may_not_be_recorded(world: World) -> None:
    world.server.faults.append(REFUSED)
    await many(world, ["train", "other"])
    world.vanish()
    world.delete("other", force=True)
    await world.reconciler.persist()
    assert (len(world.pods.live), world.left_behind()) == (2, [])


async def test_what_is_taken_to_its_end_is_no_orphan_to_the_next_process(ending: World) -> None:
    """The former one had told of it as one, and was killed before it took that back."""
    await _vanished(ending)
    await ending.settle()
    leftovers = ending.informer.vanished.leftovers
    (key,) = [key for key, _ in ending.cache.items() if key.vanished]
    told = {"kind": "GpuPod", "organization": "org-1", "name": "its-name", "uid": key.vanished}
    account = ObjectKey("CloudAccount", NAMESPACE, "default")
    leftovers.note(Leftover(fate=Fate.ORPHAN, account=account, since=BEGINNING, **told))
    await leftovers.save()
    await ending.restart()
    assert ending.informer.vanished.leftovers.of(account) == ()


async def test_what_is_taken_to_its_end_is_no_orphan_to_an_event_that_comes_late(ending: World) -> None:
    ending.watching = False
    ending.apply()
    await ending.informer.relist(ending.kube, "GpuPod", ending.flow.type, ())
    at_the_status_write(ending, lambda: ending.delete(force=True))
    await ending.settle()
    await ending.informer.relist(ending.kube, "GpuPod", ending.flow.type, ())
    assert ending.informer.vanished.leftovers.of(ObjectKey("CloudAccount", NAMESPACE, "default")) == ()


async def test_it_is_remembered_in_no_more_bytes_than_it_had(ending: World) -> None:
    """An object may have half of what fits into a ConfigMap: escaped, it would have three times as many."""
    ending.apply(annotations={CREATE_INTENT + "-note": "é" * 100_000})
    await ending.settle()
    size = len(orjson.dumps(ending.raw()))
    ending.vanish()
    await ending.one_pass()
    (kept,) = ending.left_behind()
    assert len(str(part(kept, "data")["object.json"]).encode()) < size + 1000


@pytest.mark.parametrize("where", ["annotations", "env"])
async def test_one_that_grew_beyond_what_fits_into_a_config_map_is_remembered_and_ended(
    ending: World, where: str
) -> None:
    much = "x" * 2**20
    grown: dict[str, Json] = {
        "annotations": {"metadata": {"annotations": {"example.com/note": much}}},
        "env": {"spec": {"env": [{"name": "NOTE", "value": much}]}},
    }
    ending.apply()
    await ending.settle()
    ending.server.edit("gpupods", NAMESPACE, "train", grown[where])
    ending.vanish()
    await ending.one_pass()
    assert len(ending.left_behind()) == 1
    await ending.restart()
    await ending.informer.vanished.load()
    await ending.wait(60)
    assert (ending.pods.live, ending.left_behind()) == ([], [])


async def test_it_is_ended_only_once_it_is_written_down(ending: World) -> None:
    outage = Fault(500, plural="configmaps", times=3)
    ending.server.faults.append(outage)
    await _vanished(ending)
    ending.pods.failures.clear()
    kept: list[int] = []
    ending.pods.on_call = lambda call: kept.append(len(ending.left_behind())) if call == "delete" else None
    await ending.wait(60)
    assert (kept, outage.times, ending.pods.live, ending.left_behind()) == ([1], 0, [], [])


async def test_without_the_right_to_write_it_down_it_is_ended_all_the_same(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.server.faults.append(replace(REFUSED))
    await _vanished(world)
    with caplog.at_level(logging.ERROR):
        await world.settle()
    account, vanished = ObjectKey("CloudAccount", NAMESPACE, "default"), world.informer.vanished
    assert "vanished-gpupod-" in vanished.trouble(account)
    assert vanished.trouble(account._replace(name="other")) == ""
    await world.wait(10)
    assert (world.pods.live, vanished.trouble(account)) == ([], "")
    assert "not remembered beyond this process" in caplog.text


async def test_whoever_deletes_the_config_map_lets_go_of_it(ending: World) -> None:
    ending.pods.fail("delete", *[lost(acted=False)] * 100)
    await _vanished(ending)
    await ending.one_pass()
    (kept,) = ending.left_behind()
    ending.server.remove("configmaps", OPERATOR_NAMESPACE, str(part(kept, "metadata")["name"]))
    await ending.informer.vanished.load()
    await ending.settle()
    asked = ending.pods.count("delete")
    await ending.wait(600)
    assert (ending.pods.count("delete"), len(ending.pods.live)) == (asked, 1)
    assert list(ending.cache.keys()) == []


def kept(world: World) -> dict[str, JsonValue]:
    """The object in the only ConfigMap."""
    (config_map,) = world.left_behind()
    read: dict[str, JsonValue] = json.loads(str(part(config_map, "data")["object.json"]))
    return read


async def paid_and_unknown(world: World) -> dict[str, JsonValue]:
    """It vanished while the result of its create was unknown; returns the status that tells what the create made."""
    world.pods.listable = False
    world.pods.fail("create", lost(acted=True))
    world.apply()
    await world.one_pass()
    token = getattr(world.intent(), "token", "")
    world.vanish()
    await world.wait(120)
    assert (len(world.pods.live), part(kept(world), "status").get("id")) == (1, None)
    return {**part(kept(world), "status"), "id": "pod-1", "createToken": token}


async def test_an_id_that_another_process_handed_over_is_heeded(world: World) -> None:
    """The other one had sent the create, and got the answer after it had lost its Lease."""
    status = await paid_and_unknown(world)
    body: Json = {"data": {"object.json": json.dumps({**kept(world), "status": status})}}
    (config_map,) = world.left_behind()
    world.server.edit("configmaps", OPERATOR_NAMESPACE, str(part(config_map, "metadata")["name"]), body)
    await world.informer.vanished.load()
    await world.wait(60)
    assert (world.pods.live, world.left_behind()) == ([], [])


@pytest.mark.parametrize("answers", [{}, {f"{ANNOTATION_PREFIX}note": "seen"}], ids=["alone", "with an annotation"])
async def test_an_id_that_its_config_map_lacks_is_written_there(world: World, answers: Json) -> None:
    status = await paid_and_unknown(world)
    raw = {**kept(world), "status": status}
    (config_map,), vanished = world.left_behind(), world.informer.vanished
    outage = Fault(500, method="PATCH", plural="configmaps", times=1000)
    world.server.faults.append(outage)
    await vanished.hand_over(ObjectKey("GpuPod", NAMESPACE, "train"), raw)
    name = str(part(config_map, "metadata")["name"])
    noted: Json = {"metadata": {"annotations": answers}}
    world.server.edit("configmaps", OPERATOR_NAMESPACE, name, noted)
    await vanished.load()
    world.server.faults.remove(outage)
    world.pods.fail("delete", *[lost(acted=False)] * 3)
    await world.reconciler.persist()
    assert part(kept(world), "status").get("id") == "pod-1"
    await world.restart()
    await world.wait(60)
    assert (world.pods.live, world.left_behind()) == ([], [])


async def test_it_is_not_let_go_by_a_pass_that_did_not_know_its_id(ending: World) -> None:
    await _vanished(ending)
    (key,) = [key for key in ending.cache.keys("GpuPod") if key.vanished]
    stale: Json = {"metadata": {"resourceVersion": "1", "finalizers": None}}
    with pytest.raises(Conflict):
        await DepartedObject(ending.informer.vanished, key).patch(ending.flow.type, NAMESPACE, "train", stale)
    await ending.wait(60)
    assert (ending.pods.live, ending.left_behind()) == ([], [])


async def test_people_answer_on_the_config_map(world: World) -> None:
    world.pods.listable = False
    world.pods.fail("create", lost(acted=False))
    world.apply()
    await world.one_pass()
    intent = world.intent()
    world.vanish()
    await world.wait(120)
    (kept,) = world.left_behind()
    name = str(part(kept, "metadata")["name"])
    left = json.loads(str(part(kept, "data")["object.json"]))
    assert left["status"]["conditions"][0]["reason"] == "CreateOutcomeUnknown"
    answer: Json = {"metadata": {"annotations": {f"{ANNOTATION_PREFIX}retry-create": getattr(intent, "token", "")}}}
    world.server.edit("configmaps", OPERATOR_NAMESPACE, name, answer)
    await world.informer.vanished.load()
    await world.wait(10)
    assert (world.left_behind(), world.pods.count("create")) == ([], 1)


@pytest.mark.parametrize("name", [PAUSED, PLAN_ONLY])
@pytest.mark.parametrize("where", ["on the ConfigMap", "in the object that it keeps"])
async def test_nothing_that_a_config_map_tells_holds_its_end_back(ending: World, name: str, where: str) -> None:
    await _vanished(ending)
    await ending.one_pass()
    (kept,) = ending.left_behind()
    change: Json = {"metadata": {"annotations": {name: "true"}}}
    if where == "in the object that it keeps":
        left = json.loads(str(part(kept, "data")["object.json"]))
        left["metadata"]["annotations"][name] = "true"
        change = {"data": {"object.json": json.dumps(left)}}
    ending.server.edit("configmaps", OPERATOR_NAMESPACE, str(part(kept, "metadata")["name"]), change)
    await ending.restart()
    await ending.wait(60)
    assert (ending.pods.live, ending.left_behind()) == ([], [])


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"object.json": "{"},
        {"object.json": 7},
        {"object.json": "[]"},
        {"object.json": '{"kind": "GpuShip", "metadata": {"name": "a", "uid": "b"}}'},
    ],
    ids=["empty", "torn", "odd", "a list", "of a later release"],
)
async def test_a_config_map_that_cannot_be_read_is_left_alone(world: World, data: JsonValue) -> None:
    label: Json = {"gpurelay.dev/vanished": "true"}
    metadata: Json = {"name": "vanished-x", "namespace": OPERATOR_NAMESPACE, "labels": label}
    world.server.put("configmaps", {"metadata": metadata, "data": data})
    world.server.put("configmaps", {"metadata": {"name": "kube-root-ca.crt", "namespace": OPERATOR_NAMESPACE}})
    await world.restart()
    await world.wait(10)
    assert len(world.left_behind()) == 2
    assert list(world.cache.keys()) == []


async def test_what_was_never_sent_for_needs_no_end(world: World) -> None:
    world.apply(envFrom=[{"secretRef": {"name": "missing"}}])
    await world.settle()
    assert CREATE_INTENT not in part(part(world.raw(), "metadata"), "annotations")
    world.vanish()
    await world.wait(10)
    assert (world.left_behind(), world.pods.created) == ([], [])


async def test_what_was_let_go_of_meanwhile_cannot_be_written_to(world: World) -> None:
    key = ObjectKey("GpuPod", NAMESPACE, "train", "uid-1")
    with pytest.raises(NotFound):
        await DepartedObject(world.informer.vanished, key).patch(world.flow.type, NAMESPACE, "train", {"status": {}})


def test_a_key_says_that_it_is_of_one_that_vanished() -> None:
    key = ObjectKey("GpuPod", "team-a", "train", "uid-1")
    assert str(key) == "GpuPod/team-a/train (vanished)"


async def test_an_account_knows_what_it_has_in_the_cloud_for_objects_that_vanished(ending: World) -> None:
    account = ObjectKey("CloudAccount", NAMESPACE, "default")
    await _vanished(ending)
    await ending.settle()
    (left,) = ending.informer.vanished.of(account)
    assert (left.kind, left.id) == ("GpuPod", "pod-1")
    assert ending.informer.vanished.of(account._replace(name="another")) == ()
    await ending.wait(60)
    assert ending.informer.vanished.of(account) == ()


async def test_what_an_account_shows_of_an_object_that_vanished_is_kept_without_the_object(
    ending: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    account, body, parsed = ObjectKey("CloudAccount", NAMESPACE, "default"), Vanished.body, list[ObjectKey]()

    def counted(vanished: Vanished, key: ObjectKey) -> Json:
        parsed.append(key)
        return body(vanished, key)

    await _vanished(ending)
    await ending.settle()
    monkeypatch.setattr(Vanished, "body", counted)
    for _ in range(3):
        (left,) = ending.informer.vanished.of(account)
        assert (left.of, left.id, left.since) == (f"{NAMESPACE}/train", "pod-1", BEGINNING)
    assert parsed == []


async def test_an_account_shows_what_became_known_of_an_object_after_it_vanished(ending: World) -> None:
    await _vanished(ending)
    vanished, account = ending.informer.vanished, ObjectKey("CloudAccount", NAMESPACE, "default")
    (key,) = [key for key in ending.cache.keys("GpuPod") if key.vanished]
    changed: Json = {"status": {"id": "pod-7"}, "metadata": {"deletionTimestamp": "some day"}}
    await DepartedObject(vanished, key).patch(ending.flow.type, NAMESPACE, "train", changed)
    assert [(left.id, left.since) for left in vanished.of(account)] == [("pod-7", None)]
