"""Answers about another resource: nothing is recorded, recreated or let go by them."""

import pytest

from relay_client import Cloud
from relay_operator.api.meta import CreateIntent
from relay_operator.flows.managed.resource import Inputs
from relay_operator.kinds.gpupod import Pod
from relay_wire.vms import VmRecord
from tests.unit.flows.managed.world import World


async def made(world: World) -> None:
    world.apply(recovery={"onTerminated": "Recreate"})
    await world.wait(10)
    assert world.status().id == "pod-1"


def answers(world: World, **fields: object) -> None:
    """Looks at pod-1 are answered with this; what is paid for goes on."""
    world.pods.records["pod-1"] = world.pods.records["pod-1"].model_copy(update=fields)


async def test_an_observed_id_never_becomes_the_recorded_one(world: World) -> None:
    await made(world)
    answers(world, id="pod-2")
    world.hint()
    await world.wait(600)
    assert world.status().id == "pod-1"


@pytest.mark.parametrize("deleted", [False, True])
async def test_a_nameless_answer_that_says_terminated_is_not_believed(world: World, deleted: bool) -> None:
    await made(world)
    answers(world, name="", status="terminated")
    if deleted:
        world.delete()
    world.hint()
    await world.wait(600)
    assert world.exists()
    assert world.status().id == "pod-1"
    assert world.pods.count("create") == 1


async def test_a_nameless_answer_of_what_goes_on_is_taken(world: World) -> None:
    await made(world)
    answers(world, name="", status="failed")
    world.hint()
    await world.settle()
    assert world.status().state == "failed"


async def test_a_create_that_is_answered_with_the_resource_of_another_object_is_found_out_about(world: World) -> None:
    """The cloud gives it no name, so that only the object which records it shows whose it is."""
    await made(world)
    create = world.resource.create

    async def confused(cloud: Cloud, obj: Pod, intent: CreateIntent, inputs: Inputs) -> VmRecord:
        await create(cloud, obj, intent, inputs)
        return world.pods.records["pod-1"].model_copy(update={"name": ""})

    world.resource.create = confused  # type: ignore[method-assign]
    world.apply("second")
    await world.wait(600)
    assert [world.status(name).id for name in ("train", "second")] == ["pod-1", "pod-2"]
    assert [world.reason(name) for name in ("train", "second")] == ["Running", "Running"]
    assert world.pods.count("create") == 2


async def test_a_create_that_is_answered_with_anothers_resource_is_found_out_about(world: World) -> None:
    another, create = world.pods.add("another"), world.resource.create

    async def confused(cloud: Cloud, obj: Pod, intent: CreateIntent, inputs: Inputs) -> VmRecord:
        await create(cloud, obj, intent, inputs)
        return another

    world.resource.create = confused  # type: ignore[method-assign]
    world.apply()
    await world.wait(600)
    assert world.status().id == "pod-2"
    assert world.pods.count("create") == 1
