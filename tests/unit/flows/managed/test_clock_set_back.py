"""The wall clock was ahead for a while, and is set back: what was written meanwhile extends and holds back nothing."""

import pytest
from pydantic import JsonValue

from relay_client import CapacityExhausted
from tests.unit.flows.managed.blue_green import becomes as of_the_two
from tests.unit.flows.managed.blue_green import live
from tests.unit.flows.managed.cloudpods import refused
from tests.unit.flows.managed.running import becomes, made
from tests.unit.flows.managed.world import World

HOUR = 3600.0
A_LOOK = 400.0
"""Longer than from one look at a settled object to the next."""


@pytest.fixture
def ahead(world: World) -> World:
    """A world whose clock is eight hours ahead."""
    world.clock.ahead = 8 * HOUR
    return world


async def test_a_refused_create_is_tried_again(ahead: World) -> None:
    ahead.pods.fail("create", *[refused(CapacityExhausted)] * 8)
    ahead.apply()
    await ahead.wait(60)
    assert ahead.reason() == "WaitingForCapacity"
    ahead.clock.ahead = 0
    await ahead.wait(A_LOOK)
    assert ahead.reason() == "Running"


async def test_a_pod_runs_no_longer_than_it_may(ahead: World) -> None:
    await made(ahead, lifetime={"maxRuntimeSeconds": int(HOUR)})
    ahead.clock.ahead = 0
    await ahead.wait(HOUR - 60, step=10)
    assert ahead.reason() == "Running"
    await ahead.wait(60 + A_LOOK, step=10)
    assert ahead.reason() == "MaxRuntimeReached"


async def test_a_stopped_object_is_kept_no_longer_than_it_says(ahead: World) -> None:
    await made(ahead, powerState="Stopped", lifetime={"ttlSecondsAfterStopped": 600})
    await ahead.wait(30)
    ahead.clock.ahead = 0
    await ahead.wait(600 + A_LOOK, step=10)
    assert (ahead.exists(), ahead.pods.live) == (False, [])


@pytest.mark.parametrize(
    ("state", "recovery", "ended"),
    [
        ("failed", {"onFailed": "Restart"}, "start"),
        ("interrupted", {"onInterrupted": "Recreate", "afterSeconds": 60}, "delete"),
    ],
)
async def test_what_fails_again_is_recovered(ahead: World, state: str, recovery: JsonValue, ended: str) -> None:
    await made(ahead, recovery=recovery)
    await becomes(ahead, state)
    await ahead.wait(90)
    assert (ahead.reason(), ahead.pods.count(ended)) == ("Running", 1)
    await becomes(ahead, state)
    ahead.clock.ahead = 0
    await ahead.wait(A_LOOK)
    assert (ahead.reason(), ahead.pods.count(ended)) == ("Running", 2)


async def test_what_was_relieved_is_drained_no_longer_than_it_says(both: World) -> None:
    both.clock.ahead = 8 * HOUR
    of_the_two(both, "pod-2", "running")
    await both.wait(10)
    assert live(both) == ["pod-1", "pod-2"]
    both.clock.ahead = 0
    await both.wait(A_LOOK)
    assert live(both) == ["pod-2"]


async def test_a_former_key_works_no_longer_than_it_says(showing: World) -> None:
    showing.clock.ahead = 8 * HOUR
    await made(showing)
    await showing.wait(8 * HOUR + A_LOOK, step=60)
    assert len(showing.pods.live) == 2
    showing.clock.ahead = 0
    await showing.wait(2 * HOUR + A_LOOK, step=60)
    assert len(showing.pods.live) == 1
