"""Worlds that tests of several files begin with."""

import pytest
from pydantic import JsonValue

from tests.unit.flows.managed.blue_green import BLUE_GREEN, BluePod, BluePods, becomes, ids, reached
from tests.unit.flows.managed.shown_once import PodsWithAValue
from tests.unit.flows.managed.world import World

CONNECTION: JsonValue = {"secret": {"name": "reached", "keys": {"URL": "{{endpointUrl}}"}}}


@pytest.fixture
async def blue(world: World) -> World:
    """A pod that runs, whose Secret tells where; what is made from now on takes its time."""
    world.kind, world.model = BluePods, BluePod
    world.server._validate = lambda _raw: None
    world.assemble()
    world.pods.born = "deploying"
    world.apply(updateStrategy=BLUE_GREEN, connection=CONNECTION, gpu={"modelId": "h100"})
    await world.wait(5)
    becomes(world, "pod-1", "running")
    await world.wait(5)
    assert (world.reason(), reached(world)) == ("Running", f"https://{world.pods.created[0]}.example/")
    return world


@pytest.fixture
async def both(blue: World) -> World:
    """Another is on its way."""
    blue.change(image="another")
    await blue.wait(5)
    assert (ids(blue), blue.reason()) == (["pod-2", "pod-1"], "Deploying")
    return blue


@pytest.fixture
def priced(world: World) -> World:
    """A cloud whose pods say what they cost."""

    def told(_call: str) -> None:
        for pod in world.pods.records.values():
            count = pod.gpu_count or 1
            world.pods.become(pod.id, pod.status, price_per_hour_cents=200 * count, gpu_count=count)

    world.pods.on_call = told
    return world


@pytest.fixture
def showing(world: World) -> World:
    world.kind = PodsWithAValue
    world.assemble()
    return world
