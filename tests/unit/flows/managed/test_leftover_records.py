"""Records of what lives in the cloud without an object: written by several processes, read, refused and forgotten."""

from collections.abc import AsyncIterator

import aiohttp
import pytest

from relay_kube.errors import KubeError
from relay_kube.kube import ApiAccess, JsonObject, Kube, ResourceType
from relay_operator.api.cloudaccount import Orphans
from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.leftover import Fate
from relay_operator.engine.leftovers import _OTHERS, LABEL, Leftovers
from relay_operator.engine.report import held
from relay_operator.flows.account.sweep import Sweeper, SweepMemory
from relay_operator.flows.managed.traces import ManagedTraces
from relay_operator.kinds.gpupod import GpuPodStatus
from tests.unit.engine.apiserver import Call, Fault, Json, part
from tests.unit.flows.managed.cloudpods import lost
from tests.unit.flows.managed.leftovers import ACCOUNT, KEY, kept, leftover, reach, written
from tests.unit.flows.managed.world import BEGINNING, OPERATOR_NAMESPACE, World


async def test_another_process_knows_it(world: World) -> None:
    world.apply(deletionPolicy="Orphan")
    await world.wait(10)
    world.delete()
    await world.wait(10)
    before = kept(world)
    await world.restart()
    assert kept(world) == before
    (config_map,) = world.left_behind()
    world.server.remove("configmaps", OPERATOR_NAMESPACE, str(part(config_map, "metadata")["name"]))
    await world.informer.vanished.load()
    assert kept(world) == []


async def test_a_config_map_that_cannot_be_read_is_left(world: World) -> None:
    metadata: Json = {"namespace": OPERATOR_NAMESPACE, "labels": {"gpurelay.dev/leftover": "kept"}}
    world.server.put("configmaps", {"metadata": {**metadata, "name": "a"}, "data": {"resource.json": "{}"}})
    world.server.put("configmaps", {"metadata": {**metadata, "name": "b"}})
    await world.restart()
    assert (kept(world), len(world.left_behind())) == ([], 2)


async def test_what_another_process_kept_is_not_taken_to_its_end(world: World) -> None:
    world.apply(deletionPolicy="Orphan")
    await world.wait(10)
    raw = world.raw()
    world.delete()
    await world.wait(10)
    world.informer.vanished.take_over(KEY, {**raw, "spec": {"image": "x", "deletionPolicy": "Delete"}})
    await world.wait(60)
    assert [record.id for record in world.pods.live] == ["pod-1"]


async def test_a_namesake_of_what_another_process_kept_is_not_written_down(world: World) -> None:
    world.apply(deletionPolicy="Orphan")
    await world.wait(10)
    raw = world.raw()
    world.delete()
    await world.wait(10)
    world.apply()
    await world.informer.vanished.hand_over(KEY, raw)
    assert written(world) == [("kept", "pod-1")]


async def test_what_is_written_down_while_others_are_listed_is_not_forgotten(world: World) -> None:
    leftovers, vanished = world.informer.vanished.leftovers, world.informer.vanished

    class Meanwhile(Kube):
        async def pages(self, kind: ResourceType, namespace: str | None = None) -> AsyncIterator[list[JsonObject]]:
            async for page in super().pages(kind, namespace):
                yield page
            leftovers.note(leftover(Fate.KEPT))
            await leftovers.save()

    async with aiohttp.ClientSession() as session:
        vanished.kube = Meanwhile(ApiAccess(world.server.url, session))
        await vanished.load()
    assert kept(world) == [(Fate.KEPT, "pod-9", "")]


async def test_what_was_to_be_ended_is_let_go_once_it_is_known_to_be_kept(world: World) -> None:
    world.pods.fail("delete", *[lost(acted=False)] * 50)
    world.apply()
    await world.wait(10)
    raw = world.raw()
    world.delete(force=True)
    await world.informer.vanished.hand_over(KEY, raw)
    leftovers = world.informer.vanished.leftovers
    leftovers.note(leftover(Fate.KEPT, "pod-1"))
    await leftovers.save()
    await world.restart()
    await world.wait(300)
    assert [record.id for record in world.pods.live] == ["pod-1"]
    assert written(world) == [("kept", "pod-1")]


async def test_a_fate_is_changed_but_never_from_kept(world: World) -> None:
    leftovers = world.informer.vanished.leftovers
    for fate in (Fate.ORPHAN, Fate.LATE, Fate.KEPT, Fate.LATE):
        leftovers.note(leftover(fate, uid="1"))
        await leftovers.save()
    assert ([one.fate for one in leftovers.of(ACCOUNT)], leftovers.late("1")) == ([Fate.KEPT], ())
    assert leftovers.known(reach("org-1"), "GpuPod", "pod-9")
    assert not leftovers.known(reach("org-2"), "GpuPod", "pod-9")
    assert written(world) == [("kept", "pod-9")]
    leftovers.forget(leftovers.of(ACCOUNT)[0])
    await leftovers.save()
    assert (kept(world), world.left_behind(), leftovers.known(reach("org-1"), "GpuPod", "pod-9")) == ([], [], False)


async def test_what_another_process_keeps_meanwhile_stays_kept(world: World) -> None:
    """A frozen leader wrote it down and let the object go; to the next one it looked forced away."""
    other, leftovers = (
        Leftovers(world.kube, OPERATOR_NAMESPACE, frozenset({"GpuPod"})),
        world.informer.vanished.leftovers,
    )
    leftovers.note(leftover(Fate.ORPHAN))
    other.note(leftover(Fate.KEPT))
    await other.save()
    await leftovers.save()
    assert (kept(world), written(world)) == ([(Fate.KEPT, "pod-9", "")], [("kept", "pod-9")])


@pytest.mark.parametrize("moment", ["GET", "DELETE"])
async def test_what_another_process_keeps_by_now_is_not_forgotten(world: World, moment: str) -> None:
    """An object adopted an orphan; before the leader has forgotten that it froze, and the object went."""
    leftovers, kept_by_now = world.informer.vanished.leftovers, leftover(Fate.KEPT)
    leftovers.note(leftover(Fate.ORPHAN))
    await leftovers.save()
    leftovers.forget(leftover(Fate.ORPHAN))
    change: Json = {
        "metadata": {"labels": {LABEL: Fate.KEPT}},
        "data": {"resource.json": kept_by_now.model_dump_json()},
    }

    def before(call: Call) -> None:
        if call.method == moment:
            world.server.before = lambda _: None
            world.server.edit("configmaps", OPERATOR_NAMESPACE, kept_by_now.config_map, change)

    world.server.before = before
    await leftovers.save(())
    await leftovers.save()
    assert (kept(world), written(world)) == ([(Fate.KEPT, "pod-9", "")], [("kept", "pod-9")])


async def test_what_is_to_be_forgotten_may_be_gone(world: World) -> None:
    leftovers, record = world.informer.vanished.leftovers, leftover(Fate.ORPHAN)
    leftovers.note(record)
    await leftovers.save()
    leftovers.forget(record)
    world.server.remove("configmaps", OPERATOR_NAMESPACE, record.config_map)
    await leftovers.save()
    assert (kept(world), written(world)) == ([], [])


async def test_what_is_written_down_is_not_forgotten_while_its_object_is_about_to_go(world: World) -> None:
    world.apply(deletionPolicy="Orphan")
    await world.wait(10)
    leftovers = world.informer.vanished.leftovers
    leftovers.note(leftover(Fate.KEPT, "pod-1"))
    world.delete()
    engine = world.reconciler.engine
    traces = ManagedTraces(world.resource, GpuPodStatus(), world.cache, engine.installation)
    sweeper = Sweeper(
        engine, {"GpuPod": traces}, everywhere=True, on_late=lambda _: None, organization_of=lambda _: None
    )
    await sweeper.sweep(world.account.ready, None, Orphans.DELETE, SweepMemory(), BEGINNING)
    assert (world.exists(), [fate for fate, _, _ in kept(world)], written(world)) == (
        True,
        [Fate.KEPT],
        [("kept", "pod-1")],
    )


async def test_what_is_taken_to_its_end_while_it_is_written_down_is_forgotten_again(world: World) -> None:
    leftovers = world.informer.vanished.leftovers
    leftovers.note(leftover(Fate.ORPHAN, uid="1"))
    world.server.before = lambda call: leftovers.retract("1") if call.method == "POST" else None
    await leftovers.save()
    await leftovers.save()
    assert (kept(world), written(world)) == ([], [])


async def test_what_is_noted_again_while_it_is_retracted_is_written_again(world: World) -> None:
    leftovers, record = world.informer.vanished.leftovers, leftover(Fate.ORPHAN, uid="1")
    leftovers.note(record)
    await leftovers.save()
    leftovers.retract("1")
    world.server.before = lambda call: leftovers.note(record) if call.method == "DELETE" else None
    await leftovers.save()
    assert written(world) == [("orphan", "pod-9")]


async def test_a_write_that_fails_is_made_again(world: World) -> None:
    leftovers = world.informer.vanished.leftovers
    leftovers.note(leftover(Fate.ORPHAN))
    world.server.faults.append(Fault(500, plural="configmaps", times=1))
    with pytest.raises(KubeError):
        await leftovers.save()
    await leftovers.save()
    assert written(world) == [("orphan", "pod-9")]


async def test_a_write_that_is_refused_keeps_nothing_else_back(world: World) -> None:
    leftovers = world.informer.vanished.leftovers
    first, second = sorted([leftover(Fate.ORPHAN, "pod-8"), leftover(Fate.ORPHAN)], key=lambda one: one.config_map)
    leftovers.note(first)
    leftovers.note(second)
    world.server.faults.append(refusal := Fault(403, method="POST", plural="configmaps"))
    await leftovers.save(())
    assert (written(world), refusal.times) == ([("orphan", second.id)], 0)
    world.apply()
    await world.wait(10)
    world.server.faults.append(Fault(403, method="POST", plural="configmaps", times=100))
    world.delete()
    await world.wait(60)
    assert not world.exists(), "what another's leftover waits for holds no deletion back"


async def test_nobody_waits_for_more_than_a_few_writes_that_others_need(world: World) -> None:
    leftovers = world.informer.vanished.leftovers
    records = sorted([leftover(Fate.ORPHAN, f"pod-{n}") for n in range(2 * _OTHERS + 5)], key=lambda r: r.config_map)
    for record in records:
        leftovers.note(record)
    await leftovers.save([records[-1].config_map])
    assert (len(written(world)), ("orphan", records[-1].id) in written(world)) == (_OTHERS + 1, True)
    assert leftovers.untried(ACCOUNT)
    world.server.faults.append(refusal := Fault(403, method="POST", plural="configmaps", times=_OTHERS))
    await leftovers.save(())
    assert (len(written(world)), refusal.times, leftovers.untried(ACCOUNT)) == (_OTHERS + 1, 0, True)
    await leftovers.save(())
    assert not leftovers.untried(ACCOUNT), "those whose write failed keep none from its turn"
    await leftovers.save(())
    assert (len(written(world)), leftovers.waits()) == (len(records), False)


async def test_a_process_that_ends_writes_everything(world: World) -> None:
    leftovers = world.informer.vanished.leftovers
    for number in range(2 * _OTHERS):
        leftovers.note(leftover(Fate.ORPHAN, f"pod-{number}"))
    await leftovers.save(())
    await world.reconciler.persist()
    assert len(written(world)) == 2 * _OTHERS


async def test_what_is_known_to_be_taken_to_its_end_while_it_is_saved_leaves_nothing(world: World) -> None:
    leftovers = world.informer.vanished.leftovers
    for number in (1, 2):
        leftovers.note(leftover(Fate.ORPHAN, f"pod-{number}", uid="u1"))

    def retracted(_: Call) -> None:
        leftovers.retract("u1")

    world.server.before = retracted
    await leftovers.save()
    await leftovers.save()
    assert (written(world), kept(world)) == ([], [])


def events(world: World) -> list[str]:
    """Reasons of the Events that are to be written."""
    return [note.reason for _, _, note in world.recorder._waiting._queue]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("status", "times"), [(403, 1), (500, 3)], ids=["refused", "failing again and again"])
async def test_an_object_that_cannot_go_before_its_leftover_is_written_down_says_so(
    world: World, status: int, times: int
) -> None:
    world.apply(deletionPolicy="Orphan")
    await world.wait(10)
    world.server.faults.append(refusal := Fault(status, method="POST", plural="configmaps", times=times))
    world.delete()
    while refusal.times:
        assert world.condition(ConditionType.LEFTOVER_UNRECORDED) is None
        await world.wait(0.05, 0.05)
    told, ready_ = world.condition(ConditionType.STALLED), world.condition()
    assert told is not None
    assert ready_ is not None
    assert (told.reason, ready_.status) == (Reason.LEFTOVER_UNRECORDED, "True")
    (name,) = world.informer.vanished.leftovers.of_account(ACCOUNT)
    assert told.message.startswith("pod-1 stays in the cloud")
    assert f"{OPERATOR_NAMESPACE}/{name}" in told.message
    assert world.condition(ConditionType.LEFTOVER_UNRECORDED) is not None
    assert events(world) == [Reason.LEFTOVER_UNRECORDED]
    world.server.faults.append(Fault(403, method="POST", plural="configmaps"))
    writes = world.server.writes.count("PATCH gpupods/status")
    await world.wait(60)
    assert world.server.writes.count("PATCH gpupods/status") <= writes + 1, "the words of another refusal, and no more"
    assert (world.exists(), written(world)) == (False, [("kept", "pod-1")])


async def test_more_than_a_message_names_is_counted() -> None:
    assert held("no", ["a", "b", "c", "d", "e"]).message.startswith("a, b, c and 2 more stays")


async def test_an_account_tells_what_cannot_be_written_down_or_forgotten(world: World) -> None:
    vanished, another = world.informer.vanished, ObjectKey("CloudAccount", "team-b", "default")
    leftovers, record = vanished.leftovers, leftover(Fate.ORPHAN)
    for method in ("POST", "DELETE"):
        (leftovers.note if method == "POST" else leftovers.forget)(record)
        world.server.faults.append(Fault(403, method=method, plural="configmaps"))
        await leftovers.save(())
        assert record.config_map in vanished.trouble(ACCOUNT)
        assert vanished.trouble(another) == ""
        await vanished.load()
        assert (len(kept(world)), record.config_map in vanished.trouble(ACCOUNT)) == (method == "POST", True)
        await leftovers.save(())
        assert vanished.trouble(ACCOUNT) == ""
    assert (kept(world), written(world)) == ([], [])


async def test_what_is_not_written_down_and_forgotten_is_no_trouble(world: World) -> None:
    leftovers = world.informer.vanished.leftovers
    leftovers.note(leftover(Fate.ORPHAN))
    world.server.faults.append(Fault(403, plural="configmaps"))
    await leftovers.save(())
    leftovers.forget(leftover(Fate.ORPHAN))
    assert world.informer.vanished.trouble(ACCOUNT) == ""


async def test_a_newer_note_is_not_written_over_by_what_is_read(world: World) -> None:
    leftovers = world.informer.vanished.leftovers
    leftovers.note(leftover(Fate.ORPHAN, uid="1"))
    await leftovers.save()
    leftovers.note(leftover(Fate.LATE, uid="1"))
    await world.informer.vanished.load()
    assert kept(world) == [(Fate.LATE, "pod-9", "")]
    await leftovers.save()
    assert written(world) == [("late", "pod-9")]


async def test_a_config_map_that_people_named_counts_for_nothing(world: World) -> None:
    leftovers = world.informer.vanished.leftovers
    leftovers.note(leftover(Fate.ORPHAN))
    await leftovers.save()
    text = leftover(Fate.KEPT).model_dump_json()
    metadata: Json = {
        "namespace": OPERATOR_NAMESPACE,
        "labels": {"gpurelay.dev/leftover": "kept"},
        "name": "the-copy-read-last",
    }
    world.server.put("configmaps", {"metadata": metadata, "data": {"resource.json": text}})
    await world.restart()
    assert (kept(world), len(world.left_behind())) == ([(Fate.ORPHAN, "pod-9", "")], 2)


async def test_what_cannot_be_read_is_not_written_over(world: World) -> None:
    """Another release keeps it on purpose."""
    record = leftover(Fate.ORPHAN)
    metadata: Json = {"namespace": OPERATOR_NAMESPACE, "name": record.config_map}
    labels: Json = {"gpurelay.dev/leftover": "kept"}
    world.server.put("configmaps", {"metadata": {**metadata, "labels": labels}, "data": {"resource.json": "{}"}})
    world.informer.vanished.leftovers.note(record)
    await world.informer.vanished.leftovers.save()
    (there,) = world.left_behind()
    assert part(there, "data") == {"resource.json": "{}"}


@pytest.mark.parametrize("damage", [{"data": {"resource.json": "{"}}, {"data": {"resource.json": None}}])
@pytest.mark.parametrize("cloud_id", ["pod-9", ""], ids=["by id", "by name"])
@pytest.mark.parametrize("endpoint", ["real", ""], ids=["of this release", "of an earlier release"])
async def test_what_a_damaged_config_map_keeps_stays_kept(
    world: World, damage: Json, cloud_id: str, endpoint: str
) -> None:
    record = leftover(Fate.KEPT, cloud_id, endpoint=endpoint)
    world.informer.vanished.leftovers.note(record)
    await world.informer.vanished.leftovers.save()
    world.server.edit("configmaps", OPERATOR_NAMESPACE, record.config_map, damage)
    await world.restart()
    leftovers = world.informer.vanished.leftovers
    assert leftovers.kept(reach(endpoint="real"), cloud_id, "its-name")
    assert not leftovers.kept(reach(endpoint="real"), "pod-8", "another")
    leftovers.note(record.model_copy(update={"fate": Fate.ORPHAN}))
    await leftovers.save()
    (there,) = world.left_behind()
    assert part(part(there, "metadata"), "labels") == {LABEL: Fate.KEPT}
    world.server.remove("configmaps", OPERATOR_NAMESPACE, record.config_map)
    await world.informer.vanished.load()
    assert not leftovers.kept(reach(endpoint="real"), cloud_id, "its-name")
