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
