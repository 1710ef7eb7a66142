"""What lives in the cloud without an object: what becomes of it, and what is told of it."""

from dataclasses import replace
from datetime import timedelta

import pytest
from pydantic import JsonValue

from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.api.meta import CREATE_INTENT, FINALIZER, ObjectKey
from relay_operator.engine import leftovers as leftovers_module
from relay_operator.engine.account import AccountWaiting
from relay_operator.engine.endpoints import called
from relay_operator.engine.intent import MAX_NAME, cloud_name
from relay_operator.engine.leftover import Fate
from relay_operator.engine.leftovers import _BY_NAME, LeftoversFullError
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.managed.traces import ManagedTraces
from relay_operator.kinds.gpupod import GpuPodStatus
from tests.unit.engine.apiserver import Fault, Json, part
from tests.unit.flows.managed.cloudpods import lost
from tests.unit.flows.managed.copies import copy_of
from tests.unit.flows.managed.leftovers import ACCOUNT, KEY, kept, leftover, reach, written
from tests.unit.flows.managed.world import BEGINNING, NAMESPACE, World

HERE = called("https://here.example", "").management


@pytest.mark.parametrize("policy", ["Orphan", "Stop"])
async def test_what_stays_by_policy_is_written_down_before_the_object_goes(world: World, policy: str) -> None:
    world.apply(deletionPolicy=policy)
    await world.wait(10)
    world.server.faults.append(outage := Fault(500, plural="configmaps", times=2))
    world.delete()
    await world.settle()
    assert (world.exists(), written(world)) == (True, [])
    await world.wait(60)
    assert (world.exists(), written(world), outage.times) == (False, [("kept", "pod-1")], 0)
    assert kept(world) == [(Fate.KEPT, "pod-1", f"{NAMESPACE}/train")]


async def test_what_is_abandoned_in_mid_search_is_kept_by_its_name(world: World) -> None:
    world.pods.listable = False
    world.pods.fail("create", lost(acted=True))
    world.apply()
    await world.wait(100)
    world.delete()
    world.annotate(abandon="true")
    await world.wait(10)
    leftovers = world.informer.vanished.leftovers
    assert (world.exists(), kept(world)) == (False, [(Fate.KEPT, "", f"{NAMESPACE}/train")])
    assert leftovers.kept(reach("org-1"), "pod-1", world.pods.created[0])
    assert not leftovers.kept(reach("org-2"), "pod-1", world.pods.created[0])
    assert not leftovers.kept(reach("org-1"), "", "another")


async def test_what_a_restored_object_searches_for_is_kept_by_its_name_if_it_is_abandoned(world: World) -> None:
    world.pods.listable = False
    world.pods.fail("create", lost(acted=True))
    world.apply()
    await world.wait(10)
    backup = copy_of(world.raw())
    world.delete(force=True)
    world.server.put("gpupods", backup)
    await world.settle()
    world.delete()
    world.annotate(abandon="true")
    await world.wait(10)
    assert not world.exists()
    assert world.informer.vanished.leftovers.kept(reach("org-1"), "pod-1", world.pods.created[0])


@pytest.mark.parametrize("spec", [{}, {"image": 7}])
async def test_nobody_keeps_what_another_object_searches_for(world: World, spec: Json) -> None:
    """An intent can be written by hand, with the name of another object's pod."""
    world.pods.listable = False
    world.pods.fail("create", lost(acted=True))
    world.apply()
    await world.wait(10)
    intent = world.readable_intent().model_copy(update={"token": "forged", "identity": None})
    world.apply("thief", annotations={CREATE_INTENT: intent.to_annotation()})
    world.server.edit("gpupods", NAMESPACE, "thief", {"metadata": {"finalizers": [FINALIZER]}, "spec": spec})
    world.annotate("thief", abandon="true")
    world.delete("thief")
    await world.wait(10)
    assert (world.exists("thief"), kept(world), written(world)) == (False, [], [])


async def test_nothing_stays_of_what_is_gone(world: World) -> None:
    world.apply(deletionPolicy="Stop")
    await world.wait(10)
    world.pods.become("pod-1", "terminated")
    world.delete()
    await world.wait(60)
    assert (world.exists(), written(world)) == (False, [])


async def test_what_a_former_object_had_is_an_orphan_once_its_restore_goes(world: World) -> None:
    world.apply()
    await world.wait(10)
    backup = copy_of(world.raw())
    world.delete(force=True)
    world.server.put("gpupods", backup)
    world.account.share()
    await world.wait(10)
    world.delete()
    await world.wait(10)
    assert [record.id for record in world.pods.live] == ["pod-1"]
    assert (Fate.ORPHAN, "pod-1", f"{NAMESPACE}/train") in kept(world)


async def test_what_is_forced_away_is_an_orphan(world: World) -> None:
    world.apply()
    await world.wait(10)
    world.delete(force=True)
    await world.settle()
    assert kept(world) == [(Fate.ORPHAN, "pod-1", f"{NAMESPACE}/train")]
    await world.informer.vanished.leftovers.save()
    assert written(world) == [("orphan", "pod-1")]


@pytest.mark.parametrize("forced", [True, False])
async def test_what_people_let_go_of_is_an_orphan_at_once_though_another_finalizer_keeps_the_object(
    world: World, *, forced: bool
) -> None:
    theirs: list[JsonValue] = ["example.com/theirs"]
    world.apply()
    await world.wait(10)
    ready = world.account.state
    world.account.state = AccountWaiting(Reason.ACCOUNT_MISSING, "none")
    world.server.edit("gpupods", NAMESPACE, "train", {"metadata": {"finalizers": [FINALIZER, *theirs]}})
    world.delete()
    await world.settle()
    if forced:
        world.server.edit("gpupods", NAMESPACE, "train", {"metadata": {"finalizers": theirs}})
    world.account.state = ready
    await world.wait(400)
    assert world.obj().metadata.finalizers == theirs
    assert (kept(world), len(world.pods.live)) == (
        ([(Fate.ORPHAN, "pod-1", f"{NAMESPACE}/train")], 1) if forced else ([], 0)
    )


async def test_what_people_let_go_of_is_an_orphan_also_if_a_write_tells_of_it_before_the_watch(world: World) -> None:
    theirs: list[JsonValue] = ["example.com/theirs"]
    world.apply()
    await world.wait(10)
    world.server.edit("gpupods", NAMESPACE, "train", {"metadata": {"finalizers": [FINALIZER, *theirs]}})
    world.pods.unendable.add("pod-1")
    world.delete()
    world.watching = False
    world.server.edit("gpupods", NAMESPACE, "train", {"metadata": {"finalizers": theirs}})
    await world.wait(60)
    assert kept(world) == [(Fate.ORPHAN, "pod-1", f"{NAMESPACE}/train")]


async def test_what_is_forced_away_before_its_create_had_an_answer_is_told_by_its_name(world: World) -> None:
    world.pods.listable = False
    world.pods.fail("create", lost(acted=True))
    world.apply()
    await world.wait(100)
    world.delete(force=True)
    await world.settle()
    (orphan,) = world.informer.vanished.leftovers.of(ACCOUNT)
    assert (orphan.fate, orphan.id, orphan.name, orphan.organization) == (
        Fate.ORPHAN,
        "",
        world.pods.created[0],
        "org-1",
    )


async def test_what_was_forced_away_and_replaced_while_the_watch_was_silent_is_an_orphan(world: World) -> None:
    world.apply()
    await world.wait(10)
    world.watching = False
    world.delete(force=True)
    world.apply()
    world.watching = True
    await world.informer.relist(world.kube, "GpuPod", world.flow.type, ())
    assert kept(world) == [(Fate.ORPHAN, "pod-1", f"{NAMESPACE}/train")]


async def test_what_had_nothing_leaves_nothing(world: World) -> None:
    world.account.state = AccountWaiting(Reason.ACCOUNT_MISSING, "none")
    world.apply()
    await world.wait(10)
    world.delete(force=True)
    assert kept(world) == []


async def test_what_is_taken_to_its_end_is_no_orphan(world: World) -> None:
    world.apply()
    await world.wait(10)
    raw, leftovers = world.raw(), world.informer.vanished.leftovers
    world.delete(force=True)
    await leftovers.save()
    assert written(world) == [("orphan", "pod-1")]
    leftovers.note(leftover(Fate.KEPT, "pod-8"))
    world.informer.vanished.take_over(KEY, raw)
    await leftovers.save()
    assert (written(world), leftovers.counts()) == ([("kept", "pod-8")], {Fate.KEPT: 1})
    leftovers.forget(leftovers.of(ACCOUNT)[0])
    await leftovers.save()
    await world.wait(60)
    assert (world.pods.live, world.left_behind()) == ([], [])


async def test_what_an_account_left_that_is_gone_is_anothers(world: World) -> None:
    leftovers, other = world.informer.vanished.leftovers, ObjectKey("CloudAccount", "team-b", "default")
    leftovers.note(leftover(Fate.ORPHAN))
    leftovers.note(leftover(Fate.ORPHAN, "pod-8", organization="org-2"))
    leftovers.move(reach("org-1", other), lambda key, _endpoint: key == ACCOUNT)
    assert leftovers.of(other) == ()
    leftovers.move(reach("org-1", other), lambda key, _endpoint: key == other)
    assert ([one.id for one in leftovers.of(other)], kept(world)) == (["pod-9"], [(Fate.ORPHAN, "pod-8", "")])
    await leftovers.save()
    assert sorted(written(world)) == [("orphan", "pod-8"), ("orphan", "pod-9")]


async def test_what_an_account_left_stays_from_another_cloud_that_claims_its_organization(world: World) -> None:
    leftovers, other = world.informer.vanished.leftovers, ObjectKey("CloudAccount", "team-b", "default")
    leftovers.note(leftover(Fate.ORPHAN, endpoint="real"))
    leftovers.move(reach(account=other, endpoint="own"), lambda key, _endpoint: key == other)
    assert leftovers.of(other) == ()
    leftovers.move(reach(account=other, endpoint="real"), lambda key, _endpoint: key == other)
    assert [one.id for one in leftovers.of(other)] == ["pod-9"]


@pytest.mark.parametrize(
    ("recorded", "account", "endpoint", "counts"),
    [
        ("real", "another", "real", True),
        ("own", "another", "real", False),
        ("", "another", "real", True),
        ("moved", "default", "real", True),
    ],
    ids=["the same cloud", "another cloud", "a record of an earlier release", "the account has another URL now"],
)
async def test_what_is_kept_in_one_cloud_says_nothing_of_another(
    world: World, recorded: str, account: str, endpoint: str, *, counts: bool
) -> None:
    leftovers, asker = world.informer.vanished.leftovers, ACCOUNT._replace(name=account)
    leftovers.note(leftover(Fate.KEPT, endpoint=recorded))
    assert leftovers.kept(reach(account=asker, endpoint=endpoint), "pod-9", "") is counts
    assert leftovers.kept(reach(account=asker, endpoint=endpoint), "", "its-name") is counts


async def test_a_record_of_one_cloud_does_not_stand_for_that_of_another(world: World) -> None:
    leftovers, here = world.informer.vanished.leftovers, reach(endpoint="real")
    leftovers.note(leftover(Fate.KEPT, endpoint="own"))
    assert not leftovers.known(here, "GpuPod", "pod-9")
    leftovers.note(leftover(Fate.ORPHAN, endpoint="real"))
    assert leftovers.known(here, "GpuPod", "pod-9")
    await leftovers.save()
    assert sorted(written(world)) == [("kept", "pod-9"), ("orphan", "pod-9")]


async def test_what_another_url_shows_is_recorded_as_in_that_cloud(world: World) -> None:
    leftovers = world.informer.vanished.leftovers
    record = leftover(Fate.KEPT, endpoint="former")
    leftovers.note(record)
    await leftovers.save()
    leftovers.seen_in(reach(endpoint="other"), record)
    leftovers.seen_in(reach(endpoint="other"), record)
    assert sorted(one.endpoint for one in leftovers.of(ACCOUNT)) == ["former", "other"]  # the next process needs one
    await leftovers.save()
    leftovers.seen_in(reach(endpoint="other"), record)
    await leftovers.save()
    assert [(one.id, one.fate, one.endpoint) for one in leftovers.of(ACCOUNT)] == [("pod-9", Fate.KEPT, "other")]
    assert written(world) == [("kept", "pod-9")]


async def test_what_is_kept_stays_so_although_another_account_told_of_it_as_an_orphan(world: World) -> None:
    """That account had the new URL first."""
    leftovers, other = world.informer.vanished.leftovers, ObjectKey("CloudAccount", "team-b", "default")
    record = leftover(Fate.KEPT, endpoint="former")
    leftovers.note(record)
    leftovers.note(leftover(Fate.ORPHAN, endpoint="other").model_copy(update={"account": other}))
    for _ in range(3):
        await leftovers.save()
        leftovers.seen_in(reach(endpoint="other"), record)
    await leftovers.save()
    assert written(world) == [("kept", "pod-9")]
    assert leftovers.kept(reach(account=other, endpoint="other"), "pod-9", "")


async def test_what_has_an_id_is_told_before_what_may_not_exist(world: World) -> None:
    leftovers = world.informer.vanished.leftovers
    leftovers.note(leftover(Fate.ORPHAN, "", name="by-hand"))
    later = leftover(Fate.ORPHAN, "pod-9").model_copy(update={"since": BEGINNING + timedelta(days=1)})
    leftovers.note(later)
    assert [one.id for one in leftovers.of(ACCOUNT)] == ["pod-9", ""]


async def test_of_names_alone_a_namespace_keeps_so_many_whatever_they_are_for(world: World) -> None:
    leftovers = world.informer.vanished.leftovers
    for number in range(_BY_NAME):
        leftovers.note(leftover(Fate.KEPT, "", name=f"by-hand-{number}"))
    with pytest.raises(LeftoversFullError, match="deletes the ConfigMaps"):
        leftovers.note(leftover(Fate.KEPT, "", name="one-more"))
    leftovers.note(leftover(Fate.ORPHAN, "", name="one-more"))  # a lost create must not go unseen for that
    leftovers.note(leftover(Fate.KEPT, "pod-9"))


async def test_a_namespace_takes_over_no_more_than_it_may_have(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers_module, "_MOST", 2)
    leftovers, other = world.informer.vanished.leftovers, ObjectKey("CloudAccount", "team-b", "default")
    for number in range(2):
        leftovers.note(leftover(Fate.ORPHAN, f"pod-{number}"))
    leftovers.note(leftover(Fate.ORPHAN, "theirs").model_copy(update={"account": other}))
    leftovers.move(reach(account=other), lambda key, _named: key == other)
    assert (len(leftovers.of(other)), len(leftovers.of(ACCOUNT))) == (2, 1)


async def test_a_name_is_not_the_id_that_it_looks_like(world: World) -> None:
    """Anybody can write an intent by hand, with the id of what somebody else left as its name."""
    leftovers, here = world.informer.vanished.leftovers, reach(endpoint="real")
    leftovers.note(leftover(Fate.LATE, "pod-9", endpoint="real"))
    leftovers.note(leftover(Fate.ORPHAN, "", name="pod-9", endpoint="real"))
    assert sorted((one.fate, one.id) for one in leftovers.of(ACCOUNT)) == [(Fate.LATE, "pod-9"), (Fate.ORPHAN, "")]
    found = leftovers.by_name(here, "GpuPod", "pod-9")
    assert found is not None
    assert (found.id, leftovers.known(here, "GpuPod", "pod-9")) == ("", True)


async def test_a_name_alone_is_not_handed_to_an_account_of_another_namespace(world: World) -> None:
    leftovers, other = world.informer.vanished.leftovers, ObjectKey("CloudAccount", "team-b", "default")
    shared = ObjectKey("ClusterCloudAccount", "", "shared")
    for endpoint in ("", "real"):
        leftovers.note(leftover(Fate.KEPT, "", endpoint=endpoint))
    leftovers.move(reach(account=other, endpoint="real"), lambda key, _endpoint: key == other)
    assert leftovers.of(other) == ()
    leftovers.move(reach(account=shared, endpoint="real"), lambda key, _endpoint: key == shared)
    assert sorted(one.endpoint for one in leftovers.of(shared)) == ["", "real"]  # they count for their namespace


async def test_a_record_of_an_earlier_release_that_has_only_a_name_is_its_accounts(world: World) -> None:
    leftovers, other = world.informer.vanished.leftovers, ObjectKey("CloudAccount", "team-b", "default")
    leftovers.note(leftover(Fate.ORPHAN, ""))
    assert leftovers.by_name(reach(account=other, endpoint="own"), "GpuPod", "its-name") is None
    assert leftovers.by_name(reach(endpoint="real"), "GpuPod", "its-name") is not None


@pytest.mark.parametrize("gone", ["abandoned", "forced away", "unreadable"])
async def test_what_is_left_of_an_open_create_is_in_the_cloud_of_the_account(world: World, gone: str) -> None:
    world.cache.urls = ("https://real.example", "")
    named: Json = {"name": "default", "uid": "a", "finalizers": [FINALIZER]}
    world.cache.put(ACCOUNT, {"metadata": named, "spec": {"apiKeySecretRef": {}}})
    world.account.state = replace(world.account.ready, endpoints=called("https://real.example", ""))
    world.pods.listable = False
    world.pods.fail("create", lost(acted=True))
    world.apply()
    await world.wait(100)
    sent = world.readable_intent()
    assert sent.identity is not None
    forged = sent.model_copy(update={"identity": sent.identity.model_copy(update={"endpoint": "forged"})})
    world.annotate(create_intent=forged.to_annotation())
    if gone == "forced away":
        world.informer.vanished.orphan(KEY, world.raw())
    else:
        if gone == "unreadable":
            world.server.edit("gpupods", NAMESPACE, "train", {"spec": {"image": 7}})
        world.delete()
        world.annotate(abandon="true")
    await world.wait(10)
    (record,) = world.informer.vanished.leftovers.of(ACCOUNT)
    assert (record.name, record.endpoint) == (sent.name, called("https://real.example", "").management)


async def test_what_is_only_known_by_its_name_is_found_by_it(world: World) -> None:
    leftovers = world.informer.vanished.leftovers
    leftovers.note(leftover(Fate.ORPHAN, ""))
    leftovers.note(leftover(Fate.ORPHAN, "pod-9", name="another"))
    found = [leftovers.by_name(reach("org-1"), "GpuPod", name) for name in ("its-name", "another", "unheard")]
    assert [one is not None for one in found] == [True, False, False]


async def test_the_object_tells_of_a_late_create_as_long_as_it_is_there(world: World) -> None:
    world.apply()
    await world.wait(10)
    leftovers, uid = world.informer.vanished.leftovers, world.obj().metadata.uid
    leftovers.note(leftover(Fate.ORPHAN, "pod-8", uid="of-another"))
    late = leftover(Fate.LATE, uid=uid, of=f"{NAMESPACE}/train")
    leftovers.note(late)
    world.hint()
    await world.settle()
    told = world.condition(ConditionType.LATE_CREATE)
    assert told is not None
    assert "pod-9" in told.message
    writes = len(world.server.writes)
    world.hint()
    await world.settle()
    assert len(world.server.writes) == writes
    leftovers.note(leftover(Fate.LATE, "pod-10", uid=uid))
    leftovers.forget(late)
    world.hint()
    await world.settle()
    assert world.condition(ConditionType.LATE_CREATE) is not None
    leftovers.forget(leftovers.late(uid)[0])
    world.hint()
    await world.settle()
    assert world.condition(ConditionType.LATE_CREATE) is None


@pytest.mark.parametrize(("endpoint", "reached"), [("", True), (HERE, True), ("former", False)])
async def test_the_object_tells_of_a_late_create_that_another_url_cannot_end(
    world: World, endpoint: str, *, reached: bool
) -> None:
    world.apply()
    await world.wait(10)
    spec: Json = {"apiKeySecretRef": {}, "baseUrl": "https://here.example"}
    world.cache.put(ACCOUNT, {"metadata": {"name": "default", "uid": "a"}, "spec": spec})
    world.informer.vanished.leftovers.note(leftover(Fate.LATE, uid=world.obj().metadata.uid, endpoint=endpoint))
    world.hint()
    await world.settle()
    told = world.condition(ConditionType.LATE_CREATE)
    assert told is not None
    assert ("is being ended" in told.message) is reached
    assert ("cannot be ended, since CloudAccount/team-a/default no longer calls" in told.message) is not reached


class TestTraces:
    """What GpuPods tell without an object."""

    def traces(self, world: World) -> ManagedTraces:  # type: ignore[type-arg]
        installation = world.flow.installation
        return ManagedTraces(world.resource, GpuPodStatus(), world.cache, installation)

    async def test_a_name_is_told_while_it_lives(self, world: World) -> None:
        traces, cloud, pods = self.traces(world), world.account.ready.cloud, world.pods
        made = pods.add("somebodys")
        assert await traces.name_of(cloud, made.id) == "somebodys"
        await traces.end(cloud, made.id)
        assert await traces.name_of(cloud, made.id) is None
        assert await traces.name_of(cloud, "pod-of-nobody") is None
        await traces.end(cloud, "pod-of-nobody")

    async def test_a_name_tells_the_object_and_the_installation(self, world: World) -> None:
        world.apply()
        await world.wait(10)
        traces, uid = self.traces(world), world.obj().metadata.uid
        late = cloud_name(NAMESPACE, "train", uid, "c0ffe", 7)
        gone = cloud_name(NAMESPACE, "gone", "01234567-89ab", "c0ffe", 1)
        elsewhere = cloud_name(NAMESPACE, "gone", "01234567-89ab", "other", 1)
        assert [traces.giver(name) for name in (late, gone, elsewhere, "trainer")] == [KEY, None, None, None]
        assert [traces.ours(name) for name in (late, gone, elsewhere, "trainer")] == [True, True, False, False]
        assert not traces.ours("x" * MAX_NAME + gone), "the operator gives no name as long as this"

    async def test_an_open_intent_is_searched_for_by_its_object(self, world: World) -> None:
        world.pods.listable = False
        world.pods.fail("create", lost(acted=True))
        world.apply()
        await world.wait(100)
        entry = world.cache.get(KEY)
        assert entry is not None
        name = world.pods.created[0]
        assert [self.traces(world).is_searched(one, entry) for one in (name, f"{name}-2")] == [True, False]

    async def test_an_attempt_no_earlier_than_the_recorded_one_may_be_the_objects_once_what_it_records_is_gone(
        self, world: World
    ) -> None:
        world.apply()
        await world.wait(10)
        traces, uid, cloud = self.traces(world), world.obj().metadata.uid, world.account.ready.cloud
        names = [cloud_name(NAMESPACE, "train", uid, "c0ffe", attempt) for attempt in (1, 2, 7)]

        async def restored(**status: str | int | None) -> list[bool]:
            raw = world.raw() | {"status": {**part(world.raw(), "status"), **status}}
            entry = world.cache.entry_of(raw)
            return [await traces.is_restored(cloud, entry, name) for name in names]

        assert await restored() == [False] * 3, "what it records lives"
        world.pods.become("pod-1", "terminated")
        assert await restored() == [True] * 3
        assert await restored(attempt=2) == [False, True, True]
        assert await restored(attempt=None) == [True] * 3, "its intent tells"
        assert await restored(attempt="many") == [False] * 3
        assert await restored(id=None) == [False] * 3, "it records nothing, and may be creating it"
        entry = world.cache.get(KEY)
        assert entry is not None
        assert not await traces.is_restored(cloud, entry, "somebodys")
        world.annotate(create_intent=None)
        assert await restored(attempt=None) == [False] * 3, "nothing tells how far it had come"

    async def test_a_kind_without_lists_knows_of_nothing(self, world: World) -> None:
        cloud = world.account.ready.cloud
        plain = self.traces(world)
        assert await plain.living(cloud, UnclaimedIds()) == {}


def test_what_was_looked_up_is_known_by_name() -> None:
    unclaimed = UnclaimedIds()
    unclaimed.add("pod-1")
    unclaimed.learn("pod-2", "train")
    assert dict(unclaimed.names()) == {"pod-2": "train"}


async def test_what_is_kept_is_found_by_its_id_or_its_name_alone(world: World) -> None:
    leftovers = world.informer.vanished.leftovers
    leftovers.note(leftover(Fate.KEPT, "pod-9"))
    found = [
        leftovers.kept(reach("org-1"), *one)
        for one in (("pod-9", ""), ("", "its-name"), ("its-name", "pod-9"), ("", ""), ("pod-8", "its-name"))
    ]
    assert found == [True, True, False, False, False]
    leftovers.note(leftover(Fate.KEPT, ""))  # the same name, and no id so far: it may be any of this name
    assert leftovers.kept(reach("org-1"), "pod-8", "its-name")
    leftovers.forget(leftover(Fate.KEPT, ""))
    leftovers.note(leftover(Fate.KEPT, "batch-1", name=""))
    assert [leftovers.kept(reach("org-1"), *one) for one in (("batch-1", ""), ("", ""))] == [True, False]
    leftovers.forget(leftover(Fate.KEPT, "pod-9"))
    assert not leftovers.kept(reach("org-1"), "pod-9", "its-name")


async def test_who_was_let_go_is_remembered_no_longer_than_the_object_is_there(world: World) -> None:
    leftovers = world.informer.vanished.leftovers
    world.apply()
    await world.wait(10)
    world.delete()
    last_word: Json = {**world.raw(), "metadata": {**part(world.raw(), "metadata"), "finalizers": []}}
    world.watching = False
    await world.wait(60)
    assert (world.exists(), leftovers._let_go) == (False, set())
    world.informer.gone("GpuPod", last_word)
    assert (kept(world), leftovers._let_go) == ([], set())
    world.watching = True
    world.apply("other")
    await world.settle()
    world.vanish("other")
    await world.wait(60)
    assert (world.pods.live, leftovers._let_go) == ([], set())
