"""One request for a restart is one restart, although status could not be written, or the answer is lost."""

import pytest

from relay_client import CloudUnavailable
from tests.unit.engine.apiserver import Call, Fault
from tests.unit.flows.managed.cloudpods import Failure, lost
from tests.unit.flows.managed.world import World


@pytest.fixture
async def running(world: World) -> World:
    world.apply(recovery={"onFailed": "Restart"})
    await world.wait(60)
    assert world.reason() == "Running"
    return world


def labelled(world: World, call: str) -> None:
    """Somebody writes a label at the moment before status is written."""

    def before(written: Call) -> None:
        if written.status_write:
            world.server.before = lambda _: None
            world.server.faults.append(Fault(409, method="PATCH", plural="gpupods", status_write=True))
            world.annotate(label="x")

    def just_then(sent: str) -> None:
        if sent == call:
            world.pods.on_call = lambda _call: None
            world.server.before = before

    world.pods.on_call = just_then


@pytest.mark.parametrize("shown", ["running", "deploying"])
async def test_a_status_that_could_not_be_written_makes_no_second_restart(running: World, shown: str) -> None:
    labelled(running, "restart")
    on_call = running.pods.on_call

    def then(call: str) -> None:
        on_call(call)
        if call == "restart":
            running.pods.become("pod-1", shown)

    running.pods.on_call = then
    running.annotate(restarted_at="now")
    await running.wait(10)
    running.pods.become("pod-1", "running")
    await running.wait(400)
    assert (running.pods.count("restart"), running.status().restarted_at) == (1, "now")
    running.annotate(restarted_at="again")
    await running.wait(400)
    assert (running.pods.count("restart"), running.status().restarted_at) == (2, "again")


async def test_an_outage_of_the_api_server_makes_no_second_restart(running: World) -> None:
    def outage(_call: str) -> None:
        if running.pods.count("restart") == 1:
            running.pods.on_call = lambda _call: None
            running.server.faults.append(Fault(500, plural="gpupods", status_write=True, times=10))

    running.pods.on_call = outage
    running.annotate(restarted_at="now")
    await running.wait(600)
    assert (running.pods.count("restart"), running.status().restarted_at) == (1, "now")


async def test_a_start_that_could_not_be_told_counts_as_a_recovery(running: World) -> None:
    labelled(running, "start")
    running.pods.become("pod-1", "failed")
    running.pods.deaf = True
    running.hint()
    await running.wait(8)
    assert (running.pods.count("start"), running.status().recoveries) == (1, 1)
    assert running.status().running_since is None


async def test_a_restart_whose_answer_is_lost_is_not_sent_again(running: World) -> None:
    running.pods.fail("restart", lost(acted=True))
    running.annotate(restarted_at="now")
    while running.pods.count("restart") == 0:
        await running.one_pass()
    assert "its answer is lost: it is not sent again unless gpurelay.dev/restarted-at" in running.message()
    await running.wait(600)
    assert (running.pods.count("restart"), running.reason()) == (1, "Running")


async def test_a_restart_that_the_cloud_answers_with_an_error_is_sent_again(running: World) -> None:
    running.pods.fail("restart", Failure(CloudUnavailable("call", "bad gateway", status=502)))
    running.annotate(restarted_at="now")
    await running.wait(60)
    assert (running.pods.count("restart"), running.status().restarted_at) == (2, "now")


async def test_a_stop_whose_answer_is_lost_is_sent_again(running: World) -> None:
    running.pods.fail("stop", lost(acted=False))
    running.change(powerState="Stopped")
    await running.wait(60)
    assert (running.pods.count("stop"), running.reason()) == (2, "Stopped")


async def test_what_a_start_says_is_not_told_of_another_resource(running: World) -> None:
    """It is ended and created again before the start could be told."""
    labelled(running, "restart")
    running.annotate(restarted_at="now")
    while running.pods.count("restart") == 0:
        await running.one_pass()
    running.server.edit("gpupods", "team-a", "train", {"status": {"id": "pod-9"}}, status=True)
    await running.wait(5)
    assert running.status().restarted_at is None
