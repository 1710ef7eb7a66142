"""What costs is stopped although the cloud cannot be read."""

from collections.abc import Callable

import pytest
from pydantic import JsonValue

from relay_client import Conflict
from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.api.plan import PlannedAction
from tests.unit.flows.managed.cloudpods import lost, refused
from tests.unit.flows.managed.world import World

NIGHTS: JsonValue = {"schedule": {"start": "0 1 * * *", "stop": "0 2 * * *"}}


async def made(world: World, **spec: JsonValue) -> None:
    world.apply("train", **spec)
    await world.settle()


def fails(world: World, *calls: str) -> None:
    """From now on these calls get no answer; without any, all do again."""
    world.pods.random_failure = lambda call: lost(acted=False) if call in calls else None


def state(world: World) -> str:
    return next(iter(world.pods.records.values())).status


REQUESTS: dict[str, Callable[[World], None]] = {
    "stopped": lambda world: world.change(powerState="Stopped"),
    "used up": lambda world: world.change(lifetime={"maxRuntimeSeconds": 60}),
    "outside its schedule": lambda world: world.change(lifetime=NIGHTS),
}


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
async def test_what_is_no_longer_to_run_is_stopped_once_while_reads_fail(
    world: World, request_: Callable[[World], None]
) -> None:
    await made(world)
    fails(world, "observe")
    await world.wait(300)
    request_(world)
    await world.wait(300)
    assert (state(world), world.pods.count("stop")) == ("stopped", 1)
    fails(world)
    await world.wait(120)
    assert (world.status().state, world.pods.count("stop"), world.pods.count("delete")) == ("stopped", 1, 0)


async def test_what_its_policy_keeps_is_stopped_while_reads_fail_and_let_go_once_it_is_seen(world: World) -> None:
    await made(world, deletionPolicy="Stop")
    fails(world, "observe")
    world.delete()
    await world.wait(600)
    assert (world.exists(), state(world), world.pods.count("stop")) == (True, "stopped", 1)
    fails(world)
    await world.wait(120)
    assert (world.exists(), world.pods.count("stop"), world.pods.count("delete")) == (False, 1, 0)


async def test_a_cloud_that_hears_neither_is_told_once_of_the_stop_and_once_of_the_end(world: World) -> None:
    await made(world)
    fails(world, "observe", "stop", "delete")
    world.change(powerState="Stopped")
    await world.wait(300)
    stalled = world.condition(ConditionType.STALLED)
    assert stalled is not None
    assert (stalled.reason, world.pods.count("stop")) == (Reason.CLOUD_UNAVAILABLE, 1)
    world.delete()
    await world.wait(300)
    assert (world.pods.count("stop"), world.pods.count("delete")) == (1, 1)


async def test_a_stop_that_the_cloud_refuses_while_reads_fail_is_sent_again(world: World) -> None:
    await made(world)
    fails(world, "observe")
    world.pods.fail("stop", refused(Conflict))
    world.change(powerState="Stopped")
    await world.wait(120)
    assert (state(world), world.pods.count("stop")) == ("stopped", 2)


async def test_what_was_stopped_when_it_was_last_seen_is_not_stopped_again(world: World) -> None:
    await made(world, powerState="Stopped")
    await world.wait(60)
    fails(world, "observe")
    await world.wait(300)
    assert (state(world), world.pods.count("stop")) == ("stopped", 1)


async def test_what_is_to_run_again_before_it_is_seen_is_started_once_it_is(world: World) -> None:
    await made(world)
    fails(world, "observe")
    world.change(powerState="Stopped")
    await world.wait(60)
    world.change(powerState="Running")
    await world.wait(60)
    assert (state(world), world.pods.count("start")) == ("stopped", 0)
    fails(world)
    await world.wait(120)
    assert (state(world), world.pods.count("stop"), world.pods.count("start")) == ("running", 1, 1)


async def test_what_this_process_never_saw_is_not_stopped_while_reads_fail(world: World) -> None:
    """Status alone does not prove whose a resource is."""
    await made(world)
    world.assemble()
    fails(world, "observe")
    world.change(powerState="Stopped")
    await world.wait(200)
    assert (state(world), world.pods.count("stop")) == ("running", 0)


async def test_what_was_shown_last_as_anothers_is_not_stopped_while_reads_fail(world: World) -> None:
    await made(world)
    (cloud_id,) = world.pods.records
    world.pods.become(cloud_id, "running", name="theirs")
    await world.wait(400)
    assert world.stalled().startswith(Reason.IDENTITY_MISMATCH)
    fails(world, "observe")
    world.change(powerState="Stopped")
    await world.wait(200)
    assert (state(world), world.pods.count("stop")) == ("running", 0)


async def test_a_stop_that_is_only_planned_is_told_while_reads_fail(world: World) -> None:
    await made(world)
    world.annotate(plan_only="true")
    await world.settle()
    fails(world, "observe")
    world.change(powerState="Stopped")
    await world.wait(200)
    plan = world.status().plan
    assert plan is not None
    assert (plan.action, plan.reason, plan.price_per_hour_cents) == (PlannedAction.STOP, "stop", 0)
    assert world.pods.count("stop") == 0
