"""A cloud that gives what it creates another name: one resource is paid for, and people say what it is."""

from dataclasses import replace

import pytest

from relay_client import Cloud
from relay_operator.api.meta import CreateIntent
from relay_operator.flows.managed.resource import Inputs
from relay_operator.kinds.gpupod import Pod
from relay_wire.vms import VmRecord
from tests.unit.engine.apiserver import Fault
from tests.unit.flows.managed.world import World


@pytest.fixture
def renaming(world: World) -> World:
    _renames(world)
    return world


def _renames(world: World) -> None:
    create = world.resource.create

    async def renamed(cloud: Cloud, obj: Pod, intent: CreateIntent, inputs: Inputs) -> VmRecord:
        made = await create(cloud, obj, intent, inputs)
        world.pods.become(made.id, "running", name=made.name.upper())
        return world.pods.records[made.id]

    world.resource.create = renamed  # type: ignore[method-assign]


async def _restarts(world: World) -> None:
    await world.restart()
    _renames(world)


@pytest.mark.parametrize("by_name", [False, True])
@pytest.mark.parametrize("listable", [False, True])
async def test_it_is_created_once_and_people_are_told_which_it_is(
    renaming: World, by_name: bool, listable: bool
) -> None:
    renaming.account.state = replace(renaming.account.ready, resend_unknown=by_name)
    renaming.pods.listable = listable
    renaming.apply()
    await renaming.wait(1000)
    await _restarts(renaming)
    await renaming.wait(2000)
    assert renaming.pods.count("create") == 1
    assert renaming.stalled().startswith("CreateOutcomeUnknown: a create was sent and its answer is lost: the answer ")
    assert "the answer was about pod-1, which has another name" in renaming.stalled()
    renaming.annotate(adopt_id="pod-1")
    await renaming.wait(30)
    assert (renaming.reason(), renaming.status().id, len(renaming.pods.live)) == ("Running", "pod-1", 1)
    renaming.delete()
    await renaming.wait(100)
    assert (renaming.exists(), renaming.pods.live) == (False, [])


async def test_what_the_answer_showed_is_written_as_soon_as_the_api_server_takes_it(renaming: World) -> None:
    renaming.pods.on_call = lambda _call: renaming.server.faults.append(Fault(method="PATCH", times=4))
    renaming.apply()
    await renaming.settle()
    renaming.pods.on_call = lambda _call: None
    assert renaming.readable_intent().answered == ""
    await renaming.wait(30)
    assert renaming.readable_intent().answered == "pod-1"


async def test_after_a_persons_answer_another_is_created(renaming: World) -> None:
    renaming.apply()
    await renaming.wait(1000)
    renaming.annotate(retry_create=renaming.readable_intent().token)
    await renaming.wait(30)
    assert renaming.pods.count("create") == 2
    await renaming.wait(1000)
    assert "pod-2" in renaming.stalled()
    assert renaming.pods.count("create") == 2


async def test_an_answer_about_another_objects_resource_proves_nothing(world: World) -> None:
    world.apply("first")
    await world.wait(10)
    create, others = world.resource.create, world.pods.records["pod-1"]

    async def mistaken(*_: object, **_named: object) -> VmRecord:
        return others

    world.resource.create = mistaken  # type: ignore[method-assign]
    world.apply("second")
    await world.settle()
    world.resource.create = create  # type: ignore[method-assign]
    await world.wait(1000)
    assert (world.status("first").id, world.status("second").id) == ("pod-1", "pod-2")
