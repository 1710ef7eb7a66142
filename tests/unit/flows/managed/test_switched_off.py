"""A kind that is switched off: nothing is asked for its objects, and what they have is still taken to its end."""

from relay_operator.api.meta import RECONCILE_AT
from tests.unit.flows.managed.cloudpods import lost
from tests.unit.flows.managed.world import World


async def switch(world: World, *, off: bool) -> None:
    """Another process with another setting."""
    world.disabled = off
    await world.restart()


async def test_nothing_is_asked_and_the_message_names_the_setting(world: World) -> None:
    await switch(world, off=True)
    world.apply()
    await world.wait(400)
    assert (world.reason(), world.pods.calls, world.intent()) == ("KindDisabled", [], None)
    assert world.stalled().startswith("KindDisabled: objects of the kind GpuPod are switched off")
    assert "add GpuPod to RELAY_ASSUMED_KINDS (the chart's value assumedKinds)" in world.stalled()
    await switch(world, off=False)
    await world.wait(10)
    assert (world.reason(), world.stalled()) == ("Running", "")


async def test_what_was_ready_stays_so_until_people_want_something_else(world: World) -> None:
    world.apply()
    await world.wait(10)
    calls = list(world.pods.calls)
    await switch(world, off=True)
    await world.wait(400)
    assert (world.reason(), world.stalled()[:12]) == ("Running", "KindDisabled")
    world.annotate(**{RECONCILE_AT.partition("/")[2]: "now"})
    world.change(powerState="Stopped")
    await world.wait(400)
    assert (world.reason(), world.pods.calls) == ("KindDisabled", calls)


async def test_what_was_on_its_way_is_not_followed(world: World) -> None:
    world.pods.born = "deploying"
    world.apply()
    await world.wait(10)
    await switch(world, off=True)
    await world.wait(10)
    assert world.reason() == "KindDisabled"


async def test_what_exists_is_ended_with_its_object(world: World) -> None:
    world.apply()
    await world.wait(10)
    await switch(world, off=True)
    await world.wait(400)
    world.delete()
    await world.wait(20)
    assert (world.exists(), world.pods.live, world.pods.count("delete")) == (False, [], 1)


async def test_an_answer_that_was_lost_is_searched_for_before_the_object_goes(world: World) -> None:
    world.pods.fail("create", lost(acted=True))
    world.apply()
    await world.one_pass()
    await switch(world, off=True)
    await world.wait(400)
    assert len(world.pods.live) == 1
    world.delete()
    await world.wait(900)
    assert (world.exists(), world.pods.live) == (False, [])


async def test_an_object_without_anything_goes_at_once(world: World) -> None:
    await switch(world, off=True)
    world.apply()
    await world.settle()
    world.delete()
    await world.settle()
    assert (world.exists(), world.pods.calls) == (False, [])
