"""From watch and list to cache and queue: what is looked at when, and how ghosts are found."""

import copy

import pytest
from pydantic import JsonValue

from relay_kube.errors import KubeError
from relay_kube.kube import ResourceType
from relay_operator.api.meta import CREATE_INTENT, FINALIZER, RECONCILE_AT, ObjectKey
from relay_operator.engine.entry import uid_of
from relay_operator.engine.informer import RolledBackError, keep_answer, key_of
from relay_operator.engine.leftover import Fate
from relay_operator.engine.leftovers import _BY_NAME
from relay_operator.engine.queue import Priority
from tests.unit.engine.apiserver import Fault, Json, part
from tests.unit.flows.managed.facts import INTENT
from tests.unit.flows.managed.world import NAMESPACE, World

PODS = ResourceType("gpupods", "gpurelay.dev", "v1alpha1")
SETTLED: JsonValue = {"observedGeneration": 1, "conditions": [{"type": "Ready", "status": "True"}]}


def raw(name: str = "train", *, uid: str = "u1", deleting: bool = False, status: JsonValue = None) -> Json:
    metadata: Json = {"name": name, "namespace": NAMESPACE, "uid": uid, "generation": 1, "resourceVersion": "1"}
    if deleting:
        metadata["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    return {"kind": "GpuPod", "metadata": metadata, "spec": {"image": "x"}, "status": status or {}}


@pytest.mark.parametrize(("deleting", "priority"), [(True, Priority.DELETE), (False, Priority.CHANGE)])
async def test_what_is_new_is_looked_at_and_deletions_first(world: World, deleting: bool, priority: Priority) -> None:
    world.informer.seen("GpuPod", raw(deleting=deleting))
    taken = await world.queue.take()
    assert (taken.key, taken.priority) == (ObjectKey("GpuPod", NAMESPACE, "train"), priority)


@pytest.mark.parametrize("told", ["by the watch", "by the answer to a write"])
@pytest.mark.parametrize(
    ("uid", "deleting", "priority"),
    [("u1", False, Priority.DELETE), ("u1", True, Priority.CHANGE), ("u0", True, Priority.DELETE)],
    ids=["alive before", "deleting before", "another before"],
)
async def test_only_the_beginning_of_a_deletion_goes_first(
    world: World, told: str, uid: str, deleting: bool, priority: Priority
) -> None:
    world.informer.seen("GpuPod", raw(uid=uid, deleting=deleting))
    key = (await world.queue.take()).key
    world.queue.done(key)
    news = raw(deleting=True)
    part(news, "metadata").update({"resourceVersion": "2", "annotations": {RECONCILE_AT: "now"}})
    if told == "by the watch":
        world.informer.seen("GpuPod", news)
    else:
        keep_answer(world.informer.vanished, key, news)
    assert (await world.queue.take()).priority == priority


async def test_intents_written_by_hand_leave_no_more_than_so_many_records(world: World) -> None:
    leftovers = world.informer.vanished.leftovers

    def forced_away(name: str, status: JsonValue = None, namespace: str = NAMESPACE) -> None:
        gone = raw(name, status=status)
        intent = INTENT.model_copy(update={"token": name, "name": f"resource-{name}"})
        part(gone, "metadata").update({"namespace": namespace, "annotations": {CREATE_INTENT: intent.to_annotation()}})
        world.informer.seen("GpuPod", gone)
        world.informer.gone("GpuPod", gone)

    for number in range(_BY_NAME + 5):
        forced_away(f"by-hand-{number}")
    assert leftovers.counts() == {Fate.ORPHAN: _BY_NAME}
    forced_away("with-an-id", {"id": "pod-1"})
    forced_away("of-another", namespace="team-b")
    assert leftovers.counts() == {Fate.ORPHAN: _BY_NAME + 2}
    leftovers.forget(leftovers.of(ObjectKey("CloudAccount", NAMESPACE, "default"))[-1])
    forced_away("in-its-place")
    assert leftovers.counts() == {Fate.ORPHAN: _BY_NAME + 2}


async def test_when_a_crd_is_gone_what_held_no_resource_is_forgotten_and_all_else_stays(world: World) -> None:
    held, vanished = raw("held"), ObjectKey("GpuPod", NAMESPACE, "vanished", "u9")
    part(held, "metadata")["finalizers"] = [FINALIZER]
    world.informer.seen("GpuPod", held)
    world.informer.seen("GpuPod", raw("free"))
    world.informer.seen("GpuVm", raw("other"))
    world.cache.put(vanished, raw("vanished", uid="u9"))
    world.informer.absent("GpuPod")
    assert {key.name for key in world.cache.keys()} == {"held", "other", "vanished"}  # noqa: SIM118 - not a dict


async def test_settled_objects_of_a_start_are_spread_over_time(world: World) -> None:
    for number in range(40):
        world.informer.seen("GpuPod", raw(f"pod-{number}", status=SETTLED))
    assert len(world.queue) == 0
    due = [moment for moment, _ in world.queue._delayed.values()]
    assert (min(due), max(due)) == (1.0, 2.0)  # the second in which 0.05 s and 2.0 s end


async def test_what_says_nothing_new_asks_for_nothing(world: World) -> None:
    world.informer.seen("GpuPod", raw(status=SETTLED))
    world.queue._delayed.clear()
    world.informer.seen("GpuPod", raw(status=SETTLED))
    assert (len(world.queue), world.queue._delayed) == (0, {})


@pytest.mark.parametrize(("uid", "left"), [("u1", 0), ("u2", 1)], ids=["the very object", "a namesake"])
async def test_a_deletion_concerns_the_very_object(world: World, uid: str, left: int) -> None:
    world.informer.seen("GpuPod", raw())
    world.informer.gone("GpuPod", raw(uid=uid))
    assert len(world.cache) == left


async def test_late_events_of_a_deleted_object_leave_its_namesake_alone(world: World) -> None:
    """kopf orders the events of one object only."""

    def told(version: int, uid: str) -> Json:
        account: JsonValue = {"kind": "CloudAccount", "name": "default"}
        each = raw(uid=uid, status={"id": f"pod-of-{uid}", "account": account})
        part(each, "metadata")["resourceVersion"] = str(version)
        return each

    for version, uid in ((14, "u1"), (17, "u2"), (15, "u1")):
        world.informer.seen("GpuPod", told(version, uid))
    world.informer.gone("GpuPod", told(16, "u1"))
    assert [(entry.uid, entry.version) for _, entry in world.cache.items()] == [("u2", 17)]
    orphans = world.informer.vanished.leftovers.of(ObjectKey("CloudAccount", NAMESPACE, "default"))
    assert [orphan.id for orphan in orphans] == ["pod-of-u1"]


@pytest.mark.parametrize(("namespaces", "calls"), [((), 1), ((NAMESPACE, "team-b"), 2)], ids=["all", "watched"])
async def test_a_list_repairs_what_no_event_told_of(world: World, namespaces: tuple[str, ...], calls: int) -> None:
    world.apply("stays")
    world.apply("goes")
    world.watching = False
    world.delete("goes")
    world.apply("comes")
    await world.informer.relist(world.kube, "GpuPod", PODS, namespaces)
    assert sorted(key.name for key, _ in world.cache.items()) == ["comes", "stays"]
    assert len(world.server.calls) == calls


@pytest.mark.parametrize(("namespaces", "inside"), [((), ""), ((NAMESPACE,), NAMESPACE)], ids=["all", "watched"])
async def test_one_watch_may_begin_where_a_list_was_made(
    world: World, namespaces: tuple[str, ...], inside: str
) -> None:
    assert world.informer.listed("GpuPod", inside) == ""
    world.apply()
    await world.informer.relist(world.kube, "GpuPod", PODS, namespaces)
    [(_, version)] = [page async for page in world.kube.pages_as_of(PODS, inside or None)]
    assert [world.informer.listed("GpuPod", inside) for _ in range(2)] == [version, ""]
    assert version


async def test_a_list_that_breaks_off_drops_nothing(world: World) -> None:
    world.apply()
    world.watching = False
    world.delete()
    world.server.faults.append(Fault(500, times=10))
    with pytest.raises(KubeError):
        await world.informer.relist(world.kube, "GpuPod", PODS, ())
    assert len(world.cache) == 1


@pytest.mark.parametrize("same", [True, False], ids=["the same object", "a namesake"])
async def test_what_came_while_the_list_was_read_is_no_ghost(world: World, same: bool) -> None:
    world.apply()
    newer = copy.deepcopy(world.raw())
    part(newer, "metadata").update({"resourceVersion": "999"} if same else {"resourceVersion": "999", "uid": "u9"})
    world.watching = False
    world.delete()
    world.server.before = lambda _: world.informer.seen("GpuPod", newer)
    await world.informer.relist(world.kube, "GpuPod", PODS, ())
    assert len(world.cache) == 1


async def test_a_page_that_is_older_than_a_deletion_brings_nothing_back(world: World) -> None:
    """With `recovery: Recreate`, what is brought back would be made again."""
    world.apply()
    await world.settle()
    page = copy.deepcopy(world.raw())
    world.delete(force=True)
    await world.settle()
    world.informer.seen("GpuPod", page)
    assert (len(world.cache), len(world.queue)) == (0, 0)


async def test_an_answer_to_a_write_that_comes_after_the_deletion_brings_nothing_back(world: World) -> None:
    key = world.apply()
    answer = copy.deepcopy(world.raw())
    world.delete()
    await world.settle()
    keep_answer(world.informer.vanished, key, answer)
    assert (len(world.cache), len(world.queue)) == (0, 0)


async def test_cluster_scoped_kinds_are_listed_once(world: World) -> None:
    accounts = ResourceType("clustercloudaccounts", "gpurelay.dev", "v1alpha1", namespaced=False)
    await world.informer.relist(world.kube, "ClusterCloudAccount", accounts, (NAMESPACE, "team-b"))
    assert [call.namespace for call in world.server.calls] == [""]


def test_an_object_without_metadata_is_a_mistake_of_the_server() -> None:
    with pytest.raises(TypeError, match="a GpuPod without metadata"):
        key_of("GpuPod", {})
    assert uid_of({}) == ""


async def test_what_is_known_is_known_until_something_newer_comes(world: World) -> None:
    world.informer.seen("GpuPod", raw())
    newer = raw()
    part(newer, "metadata")["resourceVersion"] = "2"
    assert [world.informer.recognizes("GpuPod", told) for told in (raw(), newer)] == [True, False]


@pytest.mark.parametrize(("uid", "taken"), [("u1", True), ("u2", False)], ids=["the very object", "a namesake"])
async def test_during_a_pass_the_echo_of_a_write_may_come_before_its_answer(
    world: World, uid: str, taken: bool
) -> None:
    world.informer.seen("GpuPod", raw())
    key = (await world.queue.take()).key
    echo = raw(uid=uid, status=SETTLED)
    part(echo, "metadata")["resourceVersion"] = "2"
    assert world.informer.recognizes("GpuPod", echo) is taken
    entry = world.cache.get(key)
    assert entry is not None
    assert (entry.settled, entry.version) == ((True, 2) if taken else (False, 1))


async def test_what_others_write_during_a_pass_has_a_pass_of_its_own(world: World) -> None:
    world.informer.seen("GpuPod", raw())
    key = (await world.queue.take()).key
    theirs = raw(deleting=True)
    part(theirs, "metadata")["resourceVersion"] = "2"
    assert world.informer.recognizes("GpuPod", theirs)
    world.queue.done(key)
    taken = await world.queue.take()
    assert (taken.key, taken.priority) == (key, Priority.DELETE)


@pytest.mark.parametrize("listed", [True, False], ids=["a list", "what the watch told"])
async def test_a_list_from_before_what_is_known_ends_the_process(world: World, listed: bool) -> None:
    """As after a restore of etcd: events of what is older than the cache would be taken for stale."""
    world.apply("first")
    world.apply("second")
    if listed:
        await world.informer.relist(world.kube, "GpuPod", PODS, ())
        world.cache.drop(ObjectKey("GpuPod", NAMESPACE, "second"))
    world.server.objects.pop(("gpupods", NAMESPACE, "second"))
    world.server._revision -= 1
    with pytest.raises(RolledBackError, match="older than what it showed before"):
        await world.informer.relist(world.kube, "GpuPod", PODS, ())
    assert len(world.cache) == (1 if listed else 2)
    assert world.informer.vanished.leftovers.counts() == {}


async def test_a_list_with_an_older_object_ends_the_process_although_others_are_newer(world: World) -> None:
    world.apply()
    backup = copy.deepcopy(world.raw())
    world.annotate(paused="true")
    world.apply("another")
    world.server.objects["gpupods", NAMESPACE, "train"] = backup
    with pytest.raises(RolledBackError):
        await world.informer.relist(world.kube, "GpuPod", PODS, ())


async def test_versions_that_cannot_be_compared_prove_nothing(world: World) -> None:
    world.apply()
    await world.informer.relist(world.kube, "GpuPod", PODS, ())
    odd = '{"metadata":{"resourceVersion":"a-1"},"items":[]}'
    world.server.faults.append(Fault(200, method="GET", body=odd))
    await world.informer.relist(world.kube, "GpuPod", PODS, ())
    assert len(world.cache) == 0


async def test_a_ghost_that_was_forced_away_leaves_an_orphan(world: World) -> None:
    key = world.apply()
    await world.wait(10)
    account = world.cache.account_of(key)
    assert account is not None
    world.watching = False
    world.delete(force=True)
    await world.informer.relist(world.kube, "GpuPod", PODS, ())
    assert [(one.fate, one.id) for one in world.informer.vanished.leftovers.of(account)] == [(Fate.ORPHAN, "pod-1")]


async def test_a_ghost_that_the_operator_let_go_leaves_nothing(world: World) -> None:
    world.apply()
    await world.wait(10)
    world.delete()
    await world.settle()
    world.watching = False
    await world.wait(60)
    assert not world.exists()
    await world.informer.relist(world.kube, "GpuPod", PODS, ())
    assert (len(world.cache), world.informer.vanished.leftovers.counts()) == (0, {})
