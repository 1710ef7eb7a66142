"""An adopted resource whose name is too long for status is replaced, and ended, as any other."""

import pytest

from tests.unit.flows.managed.blue_green import BLUE_GREEN, BluePod, BluePods, becomes, ids, live
from tests.unit.flows.managed.cloudpods import POD
from tests.unit.flows.managed.world import World

LONG = "made-by-hand-and-named-with-more-than-the-63-characters-that-a-status-has"


@pytest.fixture
async def beside_a_long_name(world: World) -> World:
    """Another is on its way."""
    world.kind, world.model = BluePods, BluePod
    world.server._validate = lambda _raw: None
    world.assemble()
    world.pods.add(LONG, fields=POD)
    world.apply(updateStrategy=BLUE_GREEN, gpu={"modelId": "h100"}, annotations={"gpurelay.dev/adopt-id": "pod-1"})
    await world.wait(10)
    world.pods.born = "deploying"
    world.change(image="another")
    await world.wait(5)
    assert ids(world) == ["pod-2", "pod-1"]
    return world


async def test_the_old_one_is_ended_once_it_is_drained(beside_a_long_name: World) -> None:
    becomes(beside_a_long_name, "pod-2", "running")
    await beside_a_long_name.wait(100)
    assert (ids(beside_a_long_name), live(beside_a_long_name)) == (["pod-2"], ["pod-2"])


async def test_the_old_one_gets_its_place_back(beside_a_long_name: World) -> None:
    becomes(beside_a_long_name, "pod-2", "failed")
    await beside_a_long_name.wait(100)
    assert (beside_a_long_name.reason(), ids(beside_a_long_name)) == ("GreenFailed", ["pod-1"])
    beside_a_long_name.delete()
    await beside_a_long_name.wait(100)
    assert (beside_a_long_name.exists(), live(beside_a_long_name)) == (False, [])
