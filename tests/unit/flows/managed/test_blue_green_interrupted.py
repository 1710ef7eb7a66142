"""Refusals, lost answers, crashes and the object's deletion: neither the new resource nor the old one is forgotten."""

import pytest

from relay_client import BadRequest, CapacityExhausted
from relay_operator.api import meta
from relay_operator.api.conditions import ConditionType
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.leftover import Fate
from tests.unit.engine.apiserver import Fault, Json
from tests.unit.flows.managed.blue_green import BLUE_GREEN, BluePod, BluePods, becomes, ids, live, status, until
from tests.unit.flows.managed.cloudpods import lost, refused
from tests.unit.flows.managed.crashing import until_it_dies
from tests.unit.flows.managed.world import NAMESPACE, World


async def test_a_create_that_is_refused_leaves_the_old_one_in_its_place(blue: World) -> None:
    blue.pods.fail("create", *[refused(CapacityExhausted)] * 3)
    blue.change(image="another")
    await blue.wait(1)
    assert (blue.reason(), ids(blue)) == ("WaitingForCapacity", ["pod-1"])
    assert blue.condition(ConditionType.CAPACITY_AVAILABLE) is not None
    blue.change(public=True)
    await blue.wait(1)
    assert blue.pods.count("visibility") == 1
    await blue.wait(300)
    assert ids(blue) == ["pod-2", "pod-1"]


async def test_a_create_that_is_refused_for_good_is_told_and_the_old_one_stays(blue: World) -> None:
    blue.pods.fail("create", *[refused(BadRequest)] * 9)
    blue.change(image="another")
    await blue.wait(5)
    assert (blue.reason(), ids(blue), status(blue).state) == ("SpecInvalid", ["pod-1"], "running")
    blue.change(image="pytorch/pytorch")
    await blue.wait(5)
    assert (blue.reason(), ids(blue), live(blue)) == ("Running", ["pod-1"], ["pod-1"])


@pytest.mark.parametrize("acted", [True, False])
async def test_the_lost_answer_to_the_create_is_found_out(blue: World, acted: bool) -> None:
    blue.pods.fail("create", lost(acted=acted))
    blue.change(image="another")
    await blue.wait(1)
    await blue.restart()
    await blue.wait(1500, step=5)
    assert (ids(blue), len(blue.pods.live)) == (["pod-2", "pod-1"], 2)
    becomes(blue, "pod-2", "running")
    await blue.wait(90)
    assert (blue.reason(), ids(blue), live(blue)) == ("Running", ["pod-2"], ["pod-2"])


@pytest.mark.parametrize("step", ["aside", "on its way", "ready", "drained"])
@pytest.mark.parametrize("policy", ["Delete", "Stop", "Orphan"])
async def test_when_the_object_is_deleted_neither_is_forgotten(blue: World, step: str, policy: str) -> None:
    blue.change(image="another", deletionPolicy=policy)
    if step == "aside":
        await until(blue, lambda: status(blue).id is None)
    else:
        await blue.wait(5)
    if step == "drained":
        becomes(blue, "pod-2", "running")
        await blue.wait(5)
    elif step == "ready":
        blue.pods.become("pod-2", "running")
    blue.delete()
    await blue.wait(60)
    assert not blue.exists()
    there = {record.id: record.status for record in blue.pods.live}
    match policy:
        case "Delete":
            assert there == {}
        case "Stop":
            assert there == ({"pod-2": "stopped"} if step == "drained" else {"pod-1": "stopped"})
        case _:
            assert set(there) == ({"pod-1"} if step == "aside" else {"pod-1", "pod-2"})
            assert len(blue.left_behind()) == len(there)


@pytest.mark.parametrize("step", ["aside", "on its way"])
async def test_what_is_forced_away_is_told_of_both(blue: World, step: str) -> None:
    blue.change(image="another")
    if step == "aside":
        await until(blue, lambda: status(blue).id is None)
    else:
        await blue.wait(5)
    blue.delete(force=True)
    await blue.settle()
    left = blue.reconciler.engine.leftovers.of(ObjectKey("CloudAccount", NAMESPACE, "default"))
    assert {record.id for record in left} == ({"pod-1"} if step == "aside" else {"pod-1", "pod-2"})
    assert {record.fate for record in left} == {Fate.ORPHAN}


async def test_an_intent_and_a_finalizer_that_are_taken_away_are_put_back(blue: World) -> None:
    blue.change(image="another")
    await until(blue, lambda: status(blue).id is None)
    bare: Json = {"annotations": {meta.CREATE_INTENT: None, meta.PAUSED: "true"}, "finalizers": None}
    blue.server.edit("gpupods", NAMESPACE, "train", {"metadata": bare})
    await blue.settle()
    intent = blue.readable_intent()
    assert (intent.name, meta.FINALIZER in blue.obj().metadata.finalizers) == (blue.pods.created[0], True)


async def test_one_that_is_being_ended_does_not_take_the_place_after_a_restart(both: World) -> None:
    both.pods.deaf = True
    both.pods.on_call = lambda call: both.pods.become("pod-2", "running") if call == "delete" else None
    both.change(image="yet-another")
    await until(both, lambda: both.pods.count("delete") == 1)
    both.change(image="another")
    both.pods.on_call = lambda _call: None
    await both.restart()
    await both.wait(15)
    assert (ids(both), live(both)) == (["pod-3", "pod-1"], ["pod-1", "pod-3"])


async def test_a_crash_in_every_step_ends_with_one_that_is_as_asked(world: World) -> None:
    world.kind, world.model = BluePods, BluePod
    world.server._validate = lambda _raw: None
    world.assemble()
    for step in range(1, 16):
        name = f"pod-{step}"
        world.apply(name, updateStrategy=BLUE_GREEN)
        await world.settle()
        world.change(name, image="another")
        await until_it_dies(world, step, within=90)
        assert len(world.pods.live) <= 2
        await world.restart()
        await world.wait(300)
        assert [record.image_url for record in world.pods.live] == ["another"], f"after a crash at step {step}"
        world.delete(name)
        await world.wait(60)
        assert world.pods.live == []


@pytest.mark.parametrize("landed", [True, False])
async def test_the_lost_answer_to_any_write_loses_nothing(blue: World, landed: bool) -> None:
    blue.pods.born = "running"
    for at, image in enumerate(("second", "third", "fourth", "fifth", "sixth", "seventh"), 1):
        writes = 0

        def fails(call: object, at: int = at) -> None:
            nonlocal writes
            writes += getattr(call, "method", "") == "PATCH"
            if writes == at and getattr(call, "method", "") == "PATCH":
                blue.server.faults.append(Fault(0, method="PATCH", acted=landed))

        blue.server.before = fails
        blue.change(image=image)
        await blue.wait(200)
        blue.server.before = lambda _: None
        blue.server.faults.clear()
        await blue.wait(100)
        assert [record.image_url for record in blue.pods.live] == [image]
        assert (blue.reason(), len(ids(blue))) == ("Running", 1)
