"""`lifetime.schedule`: what it lets run, what it stops, and what it leaves alone. The world begins at noon, UTC."""

import pytest
from pydantic import JsonValue

from relay_client import CapacityExhausted
from relay_operator.api.conditions import ConditionType
from tests.unit.flows.managed.cloudpods import refused
from tests.unit.flows.managed.world import World

OPEN: dict[str, JsonValue] = {"start": "0 11 * * *", "stop": "0 13 * * *"}
SHUT: JsonValue = {"start": "0 13 * * *", "stop": "0 14 * * *"}
HOUR = 3600


async def scheduled(world: World, schedule: JsonValue, **spec: JsonValue) -> None:
    world.apply("train", lifetime={"schedule": schedule}, **spec)
    await world.settle()


def next_time(world: World) -> str:
    moment = world.status().next_schedule_time
    return "" if moment is None else moment.strftime("%H:%M")


async def test_it_runs_in_its_windows_and_rests_between_them(world: World) -> None:
    await scheduled(world, OPEN)
    assert (world.reason(), next_time(world)) == ("Running", "13:00")
    await world.wait(HOUR + 60, step=10)
    assert (world.reason(), next_time(world), world.pods.count("stop")) == ("OutsideSchedule", "11:00", 1)
    told = world.condition()
    assert told is not None
    assert (told.status, told.message.partition("until ")[2]) == (
        "True",
        "its schedule lets it run, which is from 2026-03-02T11:00:00Z on",
    )
    await world.wait(22 * HOUR, step=60)
    assert (world.reason(), next_time(world), world.pods.count("start")) == ("Running", "13:00", 1)
    assert (world.pods.count("create"), world.status().id) == (1, "pod-1")


async def test_it_is_not_created_before_its_first_window(world: World) -> None:
    await scheduled(world, SHUT)
    assert (world.reason(), next_time(world), world.pods.live) == ("OutsideSchedule", "13:00", [])
    told = world.condition(ConditionType.RECONCILING)
    assert told is not None
    assert told.message == "not created before its schedule lets it run, which is from 2026-03-01T13:00:00Z on"
    passes = len(world.passes)
    await world.wait(HOUR - 60, step=10)
    assert len(world.passes) - passes < 15
    assert world.pods.live == []
    await world.wait(120)
    assert (world.reason(), next_time(world)) == ("Running", "14:00")


async def test_between_windows_it_writes_nothing(world: World) -> None:
    await scheduled(world, OPEN)
    await world.wait(HOUR + 60, step=10)
    writes = len(world.server.writes)
    await world.wait(6 * HOUR, step=30)
    assert len(world.server.writes) == writes


async def test_what_people_stopped_stays_stopped_in_its_window(world: World) -> None:
    await scheduled(world, OPEN, powerState="Stopped")
    await world.wait(60)
    assert (world.reason(), next_time(world)) == ("Stopped", "")
    await world.wait(24 * HOUR, step=60)
    assert world.pods.count("start") == 0


async def test_rest_is_not_the_end_after_which_an_object_is_deleted(world: World) -> None:
    world.apply("train", lifetime={"schedule": OPEN, "ttlSecondsAfterStopped": 60})
    await world.settle()
    await world.wait(3 * HOUR, step=30)
    assert (world.exists(), world.reason()) == (True, "OutsideSchedule")


async def test_a_start_that_finds_no_room_is_tried_again_within_the_window(world: World) -> None:
    await scheduled(world, OPEN)
    await world.wait(HOUR + 60, step=10)
    world.pods.fail("start", *[refused(CapacityExhausted, code="NO_CAPACITY")] * 2)
    await world.wait(22 * HOUR + 600, step=30)
    assert (world.reason(), world.pods.count("start")) == ("Running", 3)


@pytest.mark.parametrize(
    ("schedule", "problem"),
    [
        ({"start": "0 8 * * *", "stop": "0 8 * * *"}, "it would start and stop at the same times"),
        ({"start": "0 0 31 2 *", "stop": "0 8 * * *"}, "no year has a date like '0 0 31 2 *'"),
        ({"start": "0 8 * * *", "stop": "* * * * *"}, "it would never run"),
        ({"start": "0 8 * * *", "stop": "0 9 * * *", "timeZone": "Europe/Atlantis"}, "there is no time zone"),
    ],
)
async def test_a_schedule_that_cannot_be_kept_stops_nothing_and_begins_nothing(
    world: World, schedule: JsonValue, problem: str
) -> None:
    await scheduled(world, schedule)
    told = world.condition(ConditionType.STALLED)
    assert told is not None
    assert (told.reason, world.pods.live) == ("ScheduleInvalid", [])
    assert told.message.startswith(f"spec.lifetime.schedule: {problem}")
    world.change(lifetime={"schedule": {**OPEN, "timeZone": None}})
    await world.settle()
    assert world.reason() == "Running"
    world.change(lifetime={"schedule": schedule})
    await world.settle()
    assert world.condition(ConditionType.STALLED) is not None
    await world.wait(3 * HOUR, step=60)
    assert (len(world.pods.live), world.pods.count("stop")) == (1, 0)
    world.delete()
    await world.wait(60)
    assert (world.exists(), world.pods.live) == (False, [])
