"""The longest time that what is replaced may run: one beside it that is not Ready gives it no more."""

import pytest

from tests.unit.flows.managed.blue_green import becomes, ids, live
from tests.unit.flows.managed.world import World


@pytest.fixture
async def limited_run(blue: World) -> World:
    """It has run for 500 of 600 seconds, and another is created beside it."""
    blue.change(lifetime={"maxRuntimeSeconds": 600})
    await blue.wait(500)
    blue.change(image="another")
    await blue.wait(5)
    assert ids(blue) == ["pod-2", "pod-1"]
    return blue


async def test_it_is_stopped_in_time_while_the_new_one_is_not_ready(limited_run: World) -> None:
    await limited_run.wait(150)
    assert (limited_run.reason(), ids(limited_run), live(limited_run)) == ("MaxRuntimeReached", ["pod-1"], ["pod-1"])
    assert limited_run.pods.records["pod-1"].status == "stopped"


async def test_it_is_stopped_in_time_after_the_new_one_failed(limited_run: World) -> None:
    becomes(limited_run, "pod-2", "failed")
    await limited_run.wait(150)
    assert (ids(limited_run), limited_run.pods.records["pod-1"].status) == (["pod-1"], "stopped")


async def test_the_new_ones_run_begins_when_it_takes_the_place(limited_run: World) -> None:
    becomes(limited_run, "pod-2", "running")
    await limited_run.wait(10)
    await limited_run.wait(400)
    assert (limited_run.reason(), live(limited_run)) == ("Running", ["pod-2"])
    await limited_run.wait(250)
    assert limited_run.reason() == "MaxRuntimeReached"


async def test_a_restart_that_people_request_with_the_change_begins_another_run(limited_run: World) -> None:
    await limited_run.wait(150)
    limited_run.annotate(restarted_at="again")
    await limited_run.wait(20)
    assert ids(limited_run) == ["pod-3", "pod-1"]
    becomes(limited_run, "pod-3", "running")
    await limited_run.wait(200)
    assert (limited_run.reason(), live(limited_run)) == ("Running", ["pod-3"])
