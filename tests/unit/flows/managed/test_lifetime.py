"""How long a resource may run, and how long its object is kept after it stopped."""

import pytest

from relay_client import PaymentRequired
from relay_operator.api import meta
from tests.unit.engine.apiserver import Call, Json
from tests.unit.flows.managed.cloudpods import refused
from tests.unit.flows.managed.running import becomes, made
from tests.unit.flows.managed.world import NAMESPACE, World


async def test_a_pod_stops_when_its_time_is_up_and_rests_without_a_loop(world: World) -> None:
    await made(world, lifetime={"maxRuntimeSeconds": 60})
    await world.wait(59)
    assert world.pods.count("stop") == 0
    await world.wait(20)
    assert (world.pods.count("stop"), world.reason()) == (1, "MaxRuntimeReached")
    passes = len(world.passes)
    await world.wait(1000, step=10)
    assert len(world.passes) - passes <= 5
    assert world.pods.count("start") == 0
    world.annotate(restarted_at="again")
    await world.wait(10)
    assert world.reason() == "Running"


async def test_taking_the_annotation_away_starts_nothing_whose_time_is_up(world: World) -> None:
    await made(world, lifetime={"maxRuntimeSeconds": 60}, annotations={"gpurelay.dev/restarted-at": "one"})
    await world.wait(100)
    assert (world.reason(), world.status().restarted_at) == ("MaxRuntimeReached", "one")
    world.annotate(restarted_at=None)
    await world.wait(100)
    assert (world.reason(), world.pods.count("start"), world.pods.count("restart")) == ("MaxRuntimeReached", 0, 0)


async def test_a_stopped_object_whose_time_is_up_is_deleted_with_its_resource(world: World) -> None:
    await made(world, powerState="Stopped", lifetime={"ttlSecondsAfterStopped": 100})
    await world.wait(90)
    assert world.exists()
    await world.wait(60)
    assert (world.exists(), world.pods.live) == (False, [])


async def test_one_that_is_not_kept_at_all_after_it_stopped_goes_at_once(world: World) -> None:
    await made(world, powerState="Stopped", lifetime={"ttlSecondsAfterStopped": 0})
    await world.wait(40)
    assert (world.exists(), world.pods.live) == (False, [])


@pytest.mark.parametrize(
    "wanted", [{"spec": {"powerState": "Running"}}, {"metadata": {"annotations": {meta.PAUSED: "true"}}}]
)
async def test_one_whose_time_is_up_stays_if_people_want_it_to_while_the_cloud_is_asked(
    world: World, wanted: Json
) -> None:
    await made(world, powerState="Stopped", lifetime={"ttlSecondsAfterStopped": 100})

    def as_it_is_to_be_deleted(call: Call) -> None:
        if call.method == "DELETE":
            world.server.before = lambda _: None
            world.server.edit("gpupods", NAMESPACE, "train", wanted)

    world.server.before = as_it_is_to_be_deleted
    await world.wait(300)
    assert world.obj().metadata.deletion_timestamp is None
    assert len(world.pods.live) == 1


async def test_one_that_the_cloud_stopped_is_kept_for_as_long_after_people_ask_for_that(world: World) -> None:
    await made(world, lifetime={"ttlSecondsAfterStopped": 100})
    world.pods.fail("start", *[refused(PaymentRequired)] * 50)
    await becomes(world, "stopped")
    await world.wait(3 * 3600, step=60)
    world.change(powerState="Stopped")
    await world.wait(90)
    assert world.exists()
    await world.wait(60)
    assert (world.exists(), world.pods.live) == (False, [])


async def test_a_run_that_was_interrupted_begins_anew(world: World) -> None:
    await made(world, lifetime={"maxRuntimeSeconds": 600})
    await world.wait(500)
    await becomes(world, "interrupted")
    await world.wait(60)
    await becomes(world, "running")
    await world.wait(400, step=5)
    assert (world.pods.count("stop"), world.reason()) == (0, "Running")
    await world.wait(300, step=5)
    assert world.reason() == "MaxRuntimeReached"


async def test_paused_past_a_deadline_rests_without_a_loop(world: World) -> None:
    await made(world, lifetime={"maxRuntimeSeconds": 60})
    world.annotate(paused="true")
    await world.wait(300)
    assert (world.pods.count("stop"), world.reason()) == (0, "Paused")
    assert len(world.passes) < 10


@pytest.mark.parametrize("spec", [{"lifetime": {"maxRuntimeSeconds": 100}}, {"powerState": "Stopped"}], ids=str)
async def test_what_ran_is_stopped_in_a_state_that_nobody_knows_since_it_may_cost_something(
    world: World, spec: Json
) -> None:
    await made(world)
    await becomes(world, "unhealthy")
    await world.wait(5)
    assert (world.reason(), world.pods.count("stop")) == ("Deploying", 0)
    world.change("train", **spec)
    await world.wait(150)
    assert world.pods.count("stop") == 1
    assert world.reason() in {"Stopped", "MaxRuntimeReached"}


async def test_what_ran_is_stopped_in_such_a_state_before_its_object_goes(world: World) -> None:
    await made(world, deletionPolicy="Stop")
    await becomes(world, "unhealthy")
    world.delete()
    await world.wait(60)
    assert (world.exists(), world.pods.count("stop")) == (False, 1)


@pytest.mark.parametrize("state", ["deploying", "stopping"])
async def test_what_does_not_run_yet_or_stops_already_is_left_to_that(world: World, state: str) -> None:
    await made(world)
    await becomes(world, state)
    await world.wait(5)
    world.change(powerState="Stopped")
    await world.wait(100)
    assert world.pods.count("stop") == 0
    assert world.message().startswith("it is stopped as soon as it runs; ") is (state == "deploying")
    await becomes(world, "running")
    await world.wait(20)
    assert (world.pods.count("stop"), world.reason()) == (1, "Stopped")


async def test_what_is_being_stopped_is_not_being_deployed(world: World) -> None:
    await made(world)
    world.pods.deaf = True
    world.change(powerState="Stopped")
    await world.settle()
    world.pods.become("pod-1", "stopping")
    world.hint()
    await world.settle()
    assert world.reason() == "Stopping"


async def test_a_start_that_somebody_put_to_the_end_of_time_is_now(world: World) -> None:
    world.apply(lifetime={"maxRuntimeSeconds": 172_800})
    await world.wait(5)
    world.server.edit(
        world.plural, NAMESPACE, "train", {"status": {"runningSince": "9999-12-31T00:00:00Z"}}, status=True
    )
    world.hint()
    await world.wait(5)
    since = world.status().running_since
    assert since is not None
    assert since <= world.clock.wall()
