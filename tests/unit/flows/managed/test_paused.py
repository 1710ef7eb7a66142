"""The annotation `paused`: status goes on telling what the cloud shows, and nothing is done about it."""

import pytest
from pydantic import JsonValue

from relay_client import CloudUnavailable, PaymentRequired
from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.engine.account import AccountRefused
from tests.unit.flows.managed.blue_green import becomes as is_now
from tests.unit.flows.managed.blue_green import ids
from tests.unit.flows.managed.cloudpods import refused
from tests.unit.flows.managed.running import becomes, made
from tests.unit.flows.managed.world import NAMESPACE, World

SEEN = "the annotation paused is set: the operator looks, and changes nothing"
UNSEEN = "the annotation paused is set: what status tells of the cloud is old"


async def _paused(world: World, **spec: JsonValue) -> None:
    await made(world, **spec)
    world.annotate(paused="true")
    await world.settle()


def _held(world: World) -> str:
    told = world.condition(ConditionType.PAUSED)
    return "" if told is None else told.message


def _changes(world: World) -> list[str]:
    return [call for call in world.pods.calls if call not in {"observe", "create"}]


async def test_a_stop_for_lack_of_funds_is_told_with_its_deadline_and_started_once_it_may_be(world: World) -> None:
    await _paused(world)
    assert (world.reason(), _held(world)) == ("Running", SEEN)
    await becomes(world, "stopped")
    await world.wait(3600, step=5)
    status = world.status()
    assert (status.state, world.reason(), _changes(world)) == ("stopped", "Paused", [])
    assert status.deletion_deadline is not None
    assert "; if the balance stopped it, it is deleted by the cloud with its volume on " in world.message()
    assert world.message().endswith("gpurelay.dev/paused holds back what would be done about it")
    world.annotate(paused=None)
    await world.wait(10)
    assert (world.reason(), world.status().deletion_deadline, _held(world)) == ("Running", None, "")


async def test_it_costs_as_many_looks_as_one_that_is_settled(world: World) -> None:
    await made(world)
    await world.wait(3600, step=5)
    settled = len(world.resource.looks)
    world.annotate(paused="true")
    await world.settle()
    before, writes = len(world.resource.looks), len(world.server.writes)
    await world.wait(3600, step=5)
    assert len(world.resource.looks) - before <= settled
    assert len(world.server.writes) == writes


@pytest.mark.parametrize(
    ("state", "reason"), [("interrupted", "Interrupted"), ("failed", "Failed"), ("unhealthy", "Deploying")]
)
async def test_what_happens_to_it_is_told(world: World, state: str, reason: str) -> None:
    await _paused(world)
    await becomes(world, state, status_reason="the node is gone", endpoint_url="https://moved.example/")
    status = world.status()
    assert (status.state, status.status_reason, world.reason()) == (state, "the node is gone", reason)
    assert status.endpoint_url == "https://moved.example/"
    assert (status.deletion_deadline is not None) == (state == "interrupted")
    assert (_held(world), _changes(world)) == (SEEN, [])


@pytest.mark.parametrize("state", ["failed", "interrupted", "terminated"])
async def test_nothing_recovers(world: World, state: str) -> None:
    recovery: JsonValue = {"onFailed": "Restart", "onInterrupted": "Recreate", "onTerminated": "Recreate"}
    await _paused(world, recovery=recovery)
    await becomes(world, state)
    await world.wait(3600, step=5)
    assert (world.status().state, world.reason(), _changes(world)) == (state, "Paused", [])
    assert (world.status().id, world.pods.count("create")) == ("pod-1", 1)


async def test_the_next_restart_is_not_announced(world: World) -> None:
    await made(world, recovery={"onFailed": "Restart"})
    for _ in range(3):
        await becomes(world, "failed")
    assert world.reason() == "BackOff"
    world.annotate(paused="true")
    await world.wait(600)
    assert (world.reason(), world.status().next_attempt_time) == ("Paused", None)


async def test_the_spec_may_change_back_and_forth(world: World) -> None:
    await _paused(world)
    world.change(image="another")
    await world.settle()
    assert (world.reason(), world.stalled()[:21]) == ("ImmutableFieldChanged", "ImmutableFieldChanged")
    world.change(image="pytorch/pytorch", powerState="Stopped")
    await world.settle()
    assert (world.reason(), world.stalled(), _changes(world)) == ("Paused", "", [])
    world.change(powerState="Running")
    await world.settle()
    assert (world.reason(), _held(world)) == ("Running", SEEN)


async def test_what_is_written_for_others_stays_as_it_is(world: World) -> None:
    await made(world, connection={"secret": {"name": "reached"}})
    await becomes(world, "running")
    world.annotate(paused="true")
    before = world.server.objects["secrets", NAMESPACE, "reached"]
    await becomes(world, "running", endpoint_url="https://moved.example/")
    assert world.server.objects["secrets", NAMESPACE, "reached"] == before
    assert world.status().endpoint_url == "https://moved.example/"
    world.annotate(paused=None)
    await world.settle()
    assert world.server.objects["secrets", NAMESPACE, "reached"] != before


async def test_a_start_that_was_refused_is_not_tried_again(world: World) -> None:
    await made(world)
    world.pods.fail("start", *[refused(PaymentRequired)] * 9)
    await becomes(world, "stopped")
    assert world.reason() == "BalanceExhausted"
    deadline, tried = world.status().deletion_deadline, world.pods.count("start")
    world.annotate(paused="true")
    await world.wait(1200, step=5)
    assert (world.reason(), world.status().deletion_deadline) == ("Paused", deadline)
    assert world.pods.count("start") == tried


async def test_an_account_or_a_cloud_that_cannot_be_used_is_told(world: World) -> None:
    await _paused(world)
    ready = world.account.ready
    world.account.state = AccountRefused(Reason.ACCOUNT_UNAUTHORIZED, "key refused")
    world.hint()
    await world.settle()
    assert (world.reason(), world.stalled(), _held(world)) == ("Running", "AccountUnauthorized: key refused", SEEN)
    world.account.state = ready
    world.pods.fail("observe", *[refused(CloudUnavailable)] * 9)
    world.hint()
    await world.settle()
    assert (world.reason(), world.stalled(), _held(world)) == ("Running", "", SEEN)
    await world.wait(60)
    assert world.stalled().startswith("CloudUnavailable: ")
    await world.wait(1200)
    assert (world.reason(), world.stalled()) == ("Running", "")


@pytest.mark.parametrize(
    ("state", "reason"), [("interrupted", "Interrupted"), ("stopped", "Stopped"), ("terminated", "Paused")]
)
async def test_a_deletion_waits_and_what_happens_is_told(world: World, state: str, reason: str) -> None:
    await _paused(world)
    world.delete()
    await world.settle()
    assert (world.reason(), _held(world)) == ("Running", f"{SEEN}; the deletion waits until it is removed")
    await becomes(world, state)
    assert (world.status().state, world.reason(), _changes(world)) == (state, reason, [])
    assert (world.status().deletion_deadline is not None) == (state != "terminated")
    world.annotate(paused=None)
    await world.wait(60)
    assert not world.exists()


async def test_what_stays_in_the_cloud_is_not_looked_at(world: World) -> None:
    await _paused(world, deletionPolicy="Orphan")
    world.delete()
    await world.settle()
    looks = len(world.resource.looks)
    await world.wait(600)
    assert (world.reason(), len(world.resource.looks)) == ("Running", looks)
    assert _held(world) == f"{UNSEEN}; the deletion waits until it is removed"


async def test_nothing_is_looked_for_without_an_id(world: World) -> None:
    world.apply(annotations={"gpurelay.dev/paused": "true"})
    await world.wait(600)
    assert (world.pods.calls, _held(world)) == ([], UNSEEN)


async def test_neither_the_old_one_is_ended_nor_the_new_one_put_in_its_place(both: World) -> None:
    both.annotate(paused="true")
    await both.settle()
    looks = len(both.resource.looks)
    is_now(both, "pod-2", "running")
    await both.settle()
    assert (ids(both), both.reason(), len(both.resource.looks) - looks) == (["pod-2", "pod-1"], "Paused", 1)
    both.change(image="third")
    await both.wait(1200, step=5)
    assert (ids(both), both.reason(), len(both.passes) < 40) == (["pod-2", "pod-1"], "Paused", True)
    both.change(image="another")
    both.annotate(paused=None)
    await both.wait(90)
    assert ids(both) == ["pod-2"]
