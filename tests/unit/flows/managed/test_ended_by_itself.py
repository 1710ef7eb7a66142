"""What fails, is interrupted, or was ended by another hand: how it is told, restarted, or created again."""

import itertools

import pytest
from pydantic import JsonValue

from relay_operator.api.conditions import ConditionType
from tests.unit.flows.managed.running import becomes, made
from tests.unit.flows.managed.world import World


async def test_an_interruption_tells_until_when_it_is_kept_and_is_waited_out(world: World) -> None:
    await made(world)
    await becomes(world, "interrupted")
    ready = world.condition()
    assert ready is not None
    assert (ready.reason, "interrupted since 2026-03-01T12:00:00Z" in ready.message) == ("Interrupted", True)
    assert world.status().deletion_deadline is not None
    await becomes(world, "running")
    assert (world.reason(), world.status().deletion_deadline) == ("Running", None)


async def test_what_was_ended_by_another_hand_stalls_or_is_made_anew(world: World) -> None:
    await made(world)
    await becomes(world, "terminated")
    assert world.reason() == "TerminatedExternally"
    world.change(recovery={"onTerminated": "Recreate"})
    await world.wait(10)
    assert (world.status().id, world.reason()) == ("pod-2", "Running")


async def test_what_was_ended_by_another_hand_stays_so_when_the_cloud_forgets_it(world: World) -> None:
    await made(world)
    await becomes(world, "terminated")
    reasons = {world.reason()}
    del world.pods.records["pod-1"]
    for _ in range(60):
        world.hint()
        await world.wait(1)
        reasons.add(world.reason())
    assert reasons == {"TerminatedExternally"}
    assert world.status().state == "terminated"


async def test_an_interruption_that_lasts_is_ended_and_made_anew_where_asked(world: World) -> None:
    await made(world, recovery={"onInterrupted": "Recreate", "afterSeconds": 100})
    await becomes(world, "interrupted")
    await world.wait(95)
    assert world.pods.count("delete") == 0
    await world.wait(30)
    assert (world.status().id, world.reason(), len(world.pods.live)) == ("pod-2", "Running", 1)


async def test_a_failure_is_told_in_the_clouds_words(world: World) -> None:
    await made(world)
    await becomes(world, "failed", status_reason="exit code 137")
    stalled = world.condition(ConditionType.STALLED)
    assert stalled is not None
    assert (stalled.reason, "exit code 137" in stalled.message) == ("Failed", True)


async def test_failures_are_restarted_ever_more_slowly(world: World) -> None:
    await made(world, recovery={"onFailed": "Restart"})
    starts: list[float] = []
    world.pods.on_call = lambda call: starts.append(world.clock.seconds) if call == "start" else None
    for _ in range(200):
        if world.pods.records["pod-1"].status == "running":
            world.pods.become("pod-1", "failed")
            world.hint()
        await world.wait(2)
    pauses = [later - earlier for earlier, later in itertools.pairwise(starts)]
    assert starts[0] <= 2
    assert pauses == sorted(pauses)
    assert 5 <= len(starts) <= 7


LOOPS: dict[str, tuple[JsonValue, str]] = {
    "a crash loop": ({"onFailed": "Recreate"}, "failed"),
    "what is ended again and again": ({"onTerminated": "Recreate"}, "terminated"),
    "what is interrupted again and again": ({"onInterrupted": "Recreate", "afterSeconds": 0}, "interrupted"),
}


@pytest.mark.parametrize(("recovery", "state"), LOOPS.values(), ids=LOOPS)
async def test_recreations_in_a_loop_are_paid_for_ever_more_seldom(
    world: World, recovery: JsonValue, state: str
) -> None:
    await made(world, recovery=recovery)
    times: list[float] = []
    world.pods.on_call = lambda call: times.append(world.clock.seconds) if call == "create" else None
    for _ in range(1000):
        running = [record.id for record in world.pods.live if record.status == "running"]
        for cloud_id in running:
            world.pods.become(cloud_id, state)
            world.hint()
        await world.wait(2)
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert times[0] <= 40
    assert pauses == sorted(pauses)
    assert 8 <= len(times) <= 12
    assert max(pauses) >= 300
    assert len(world.pods.live) <= 1


async def test_a_crash_loop_is_told_with_how_often_and_when_next(world: World) -> None:
    await made(world, recovery={"onFailed": "Recreate"})
    await becomes(world, "failed", status_reason="exit code 1")
    await world.wait(40)
    assert (world.status().id, world.status().recoveries) == ("pod-2", 1)
    begun = world.clock.wall()
    await becomes(world, "failed", status_reason="exit code 1")
    ready, again = world.condition(), world.status().next_attempt_time
    assert ready is not None
    assert again is not None
    assert (ready.reason, ready.status) == ("BackOff", "False")
    assert "exit code 1; recreated 1 time without" in ready.message
    assert f"next at {again.strftime('%Y-%m-%dT%H:%M:%SZ')}" in ready.message
    assert (again - begun).total_seconds() == 10
    writes = len(world.server.writes)
    world.hint()
    await world.wait(8)
    assert (world.status().id, len(world.server.writes)) == ("pod-2", writes)
    await world.wait(40)
    assert (world.status().id, world.status().recoveries, world.status().next_attempt_time) == ("pod-3", 2, None)


async def test_a_crash_loop_ends_at_once_with_another_spec(world: World) -> None:
    await made(world, recovery={"onFailed": "Recreate"})
    await becomes(world, "failed")
    await world.wait(40)
    await becomes(world, "failed")
    world.change(image="repaired")
    await world.settle()
    assert world.reason() == "Recreating"
    await world.wait(40)
    assert [record.image_url for record in world.pods.live] == ["repaired"]


async def test_a_run_that_lasted_makes_the_next_recovery_quick_again(world: World) -> None:
    await made(world, recovery={"onFailed": "Recreate"})
    for _ in range(3):
        await becomes(world, "failed")
        await world.wait(100)
    assert world.status().recoveries == 3
    await world.wait(900, step=5)
    assert world.status().recoveries is None
    await becomes(world, "failed")
    assert world.reason() == "Recreating"


async def test_what_never_becomes_as_asked_is_not_recreated_without_a_pause(world: World) -> None:
    """As where the cloud calls the image by another name than the spec."""
    await made(world, updateStrategy={"type": "Recreate"})

    def another_name(call: str) -> None:
        if call == "create":
            newest = list(world.pods.records)[-1]
            world.pods.become(newest, "running", image_url="docker.io/pytorch/pytorch")

    world.pods.on_call = another_name
    world.pods.become("pod-1", "running", image_url="docker.io/pytorch/pytorch")
    reasons = set()
    for _ in range(300):
        world.hint()
        await world.wait(4)
        reasons.add(world.reason())
    assert 6 <= world.pods.count("create") <= 9
    assert "BackOff" in reasons


async def test_a_failure_after_a_short_run_waits_from_the_failure_on(world: World) -> None:
    await made(world, recovery={"onFailed": "Restart"})
    for _ in range(4):
        await becomes(world, "failed")
        await world.wait(100)
    assert world.pods.count("start") == 4
    await world.wait(200)
    await becomes(world, "failed")
    await world.wait(30)
    assert world.pods.count("start") == 4


async def test_a_failure_is_recreated_where_asked(world: World) -> None:
    await made(world, recovery={"onFailed": "Recreate"})
    await becomes(world, "failed")
    await world.wait(30)
    assert (world.status().id, world.reason(), len(world.pods.live)) == ("pod-2", "Running", 1)


@pytest.mark.parametrize("recreating", [{"onFailed": "Recreate"}, {"onInterrupted": "Recreate", "afterSeconds": 0}])
async def test_what_takes_long_to_end_is_recreated_once_it_is_gone(
    world: World, recreating: dict[str, JsonValue]
) -> None:
    await made(world, recovery=recreating)
    world.pods.on_call = lambda call: world.pods.become("pod-1", "terminating") if call == "delete" else None
    await becomes(world, "failed" if "onFailed" in recreating else "interrupted")
    await world.wait(120)
    assert (world.pods.records["pod-1"].status, world.pods.count("create")) == ("terminating", 1)
    await world.restart()
    await world.wait(60)
    world.pods.become("pod-1", "terminated")
    await world.wait(30)
    assert (world.status().id, world.reason(), len(world.pods.live)) == ("pod-2", "Running", 1)
    assert world.status().recoveries == 1


async def test_what_is_wanted_again_before_its_end_was_sent_stays(world: World) -> None:
    world.pods.born = "deploying"
    await made(world, updateStrategy={"type": "Recreate"})
    world.change(image="another")
    await world.one_pass()
    world.change(image="pytorch/pytorch")
    await world.wait(60)
    assert (world.status().replacing, world.pods.count("delete")) == (True, 0)
    await becomes(world, "running")
    assert (world.status().id, world.status().replacing, world.reason()) == ("pod-1", None, "Running")
    await becomes(world, "terminated")
    assert world.reason() == "TerminatedExternally"
