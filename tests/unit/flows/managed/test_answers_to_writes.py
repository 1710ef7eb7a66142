"""What people write just before the operator's own write: the event is older than the answer, and yet not missed."""

from collections.abc import Callable

from tests.unit.engine.apiserver import Call
from tests.unit.flows.managed.world import World


def just_before_status(world: World, deed: Callable[[], None]) -> None:
    """Somebody does this just before the next write of status arrives, and the watch tells nothing of it."""

    def act(call: Call) -> None:
        if call.status_write:
            world.server.before = lambda _: None
            world.watching = False
            deed()

    world.server.before = act


async def test_a_change_of_the_spec_is_acted_on_at_once(world: World) -> None:
    world.apply()
    just_before_status(world, lambda: world.change(powerState="Stopped"))
    await world.wait(10)
    assert (world.status().state, world.status().observed_generation) == ("stopped", 2)


async def test_a_deletion_ends_it_at_once(world: World) -> None:
    world.apply()
    just_before_status(world, world.delete)
    await world.wait(10)
    assert not world.exists()


async def test_an_answer_that_shows_nothing_of_others_asks_for_nothing(world: World) -> None:
    world.apply()
    await world.settle()
    passes = len(world.passes)
    await world.wait(4)
    assert len(world.passes) == passes
