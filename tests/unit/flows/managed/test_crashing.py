"""The process dies between any two steps: the next one neither doubles nor forgets what is paid for."""

import pytest

from relay_operator.api.conditions import ConditionType
from tests.unit.engine.apiserver import Call, Fault
from tests.unit.flows.managed.crashing import Crash, DiedError, until_it_dies
from tests.unit.flows.managed.world import World


@pytest.mark.parametrize("write", [1, 2, 3], ids=["intent", "id", "Ready"])
@pytest.mark.parametrize("landed", [True, False])
async def test_a_crash_around_any_write_loses_nothing(world: World, write: int, landed: bool) -> None:
    world.pods.born = "deploying"
    seen = 0

    def die(call: Call) -> None:
        nonlocal seen
        seen += call.method == "PATCH"
        if seen == write and call.method == "PATCH":
            world.server.faults.append(Fault(0, method="PATCH", acted=landed))
            world.leading = False  # what a dead process would do after this is not to be seen

    world.server.before = die
    world.apply()
    await world.one_pass()
    for record in world.pods.live:
        world.pods.become(record.id, "running")
    world.hint()
    await world.one_pass()
    world.server.before, world.leading = (lambda _: None), True
    world.server.faults.clear()
    await world.restart()
    await world.wait(700)
    for record in world.pods.live:
        world.pods.become(record.id, "running")
    await world.wait(400)
    assert len(world.pods.live) == 1
    assert (world.status().id, world.reason()) == (world.pods.live[0].id, "Running")


@pytest.mark.parametrize("listable", [True, False])
async def test_a_crash_after_the_create_landed_is_found_out_or_held(world: World, listable: bool) -> None:
    world.pods.listable = listable
    world.pods.on_call = Crash(1)
    world.apply()
    with pytest.raises(DiedError):
        await world.one_pass()
    world.pods.on_call = lambda _: None
    await world.restart()
    await world.wait(200)
    assert len(world.pods.created) == 1
    assert world.status().id == ("pod-1" if listable else None)
    held = world.condition(ConditionType.CREATE_OUTCOME_UNKNOWN)
    assert (held is None) is listable


async def test_a_crash_while_a_termination_is_under_way_terminates_again_and_lets_go(world: World) -> None:
    world.apply()
    await world.settle()
    world.delete()
    world.pods.on_call = Crash(2)
    with pytest.raises(DiedError):
        await world.one_pass()
    world.pods.on_call = lambda _: None
    await world.restart()
    await world.wait(60)
    assert (world.pods.live, world.exists()) == ([], False)


async def test_a_crash_in_every_step_of_a_replacement_ends_with_one_that_is_as_asked(world: World) -> None:
    for step in range(1, 12):
        name = f"pod-{step}"
        world.apply(name, updateStrategy={"type": "Recreate"})
        await world.settle()
        world.change(name, image="another")
        await until_it_dies(world, step, within=30)
        await world.restart()
        await world.wait(200)
        assert [record.image_url for record in world.pods.live] == ["another"], f"after a crash at step {step}"
        world.delete(name)
        await world.wait(60)
        assert world.pods.live == []
