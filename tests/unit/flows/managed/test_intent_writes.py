"""The write of a create's intent: refused, overtaken, or its answer lost."""

import json
from collections.abc import Callable

import pytest

from tests.unit.engine.apiserver import Call, Fault, Json, metadata_fault
from tests.unit.flows.managed.cloudpods import lost
from tests.unit.flows.managed.world import NAMESPACE, World


@pytest.mark.parametrize("status", [409, 500, 422])
async def test_nothing_is_sent_when_the_intent_is_not_taken(world: World, status: int) -> None:
    world.server.faults.append(metadata_fault(status))
    world.apply()
    await world.settle()
    assert world.pods.calls == []
    await world.wait(10)
    assert world.pods.created == [world.readable_intent().name]


@pytest.mark.parametrize("status", [409, 422])
async def test_intents_that_are_never_taken_are_not_remembered(world: World, status: int) -> None:
    """An admission policy may refuse them for days."""
    world.server.faults.append(metadata_fault(status, times=1000))
    world.apply()
    await world.wait(60)
    (key,) = world.cache.keys()
    assert [memory.unsent for memory in [world.reconciler.memories.get(key)] if memory is not None] == [set()]


async def test_somebody_elses_change_between_reading_and_the_intent_stops_the_create(world: World) -> None:
    def label(_: Call) -> None:
        world.server.before = lambda _: None
        labels: Json = {"metadata": {"labels": {"a": "b"}}}
        world.server.edit("gpupods", NAMESPACE, "train", labels)

    world.server.before = label
    world.apply()
    await world.settle()
    assert (world.server.answers, world.pods.calls) == ([409], [])
    await world.wait(10)
    assert world.pods.count("create") == 1


@pytest.mark.parametrize("status", [0, 500], ids=["no answer", "500"])
async def test_an_intent_whose_answer_is_lost_is_read_again_and_sent(world: World, status: int) -> None:
    world.pods.listable = False
    world.server.faults.append(metadata_fault(status, acted=True))
    world.apply()
    await world.settle()
    assert (world.pods.created, world.status().id) == ([world.readable_intent().name], "pod-1")


def read_fault() -> Fault:
    return Fault(500, method="GET", plural="gpupods")


async def test_an_intent_that_cannot_be_read_again_is_closed_since_nothing_was_sent(world: World) -> None:
    world.pods.listable = False
    world.server.faults += [metadata_fault(500, acted=True), read_fault()]
    world.apply()
    await world.settle()
    assert world.pods.calls == []
    await world.wait(10)
    assert (world.pods.created, world.reason()) == ([world.readable_intent().name], "Running")
    assert world.readable_intent().attempt == 2


async def test_an_intent_that_nobody_remembers_not_to_have_sent_stays_open(world: World) -> None:
    """The process ends before it knows: the next one cannot tell whether this one had sent it."""
    world.pods.listable = False
    world.server.faults += [metadata_fault(500, acted=True), read_fault()]
    world.apply()
    await world.one_pass()
    await world.restart()
    await world.wait(200)
    assert (world.pods.calls.count("create"), world.reason()) == (0, "CreateOutcomeUnknown")


async def test_an_intent_that_lands_late_is_closed_and_not_searched_for(world: World) -> None:
    world.pods.listable = False
    late: list[Json] = []

    def hold(call: Call) -> None:
        if call.method == "PATCH" and not late:
            late.append(json.loads(call.body))

    world.server.before = hold
    world.server.faults += [metadata_fault(500), read_fault()]
    world.apply()
    await world.one_pass()
    world.server.edit("gpupods", NAMESPACE, "train", late[0])
    await world.wait(10)
    assert (len(world.pods.live), world.pods.count("create"), world.reason()) == (1, 1, "Running")


def unprotect(world: World) -> None:
    world.server.edit("gpupods", NAMESPACE, "train", {"metadata": {"finalizers": []}})


MEANWHILE: dict[str, Callable[[World], None]] = {
    "the spec has changed": lambda world: world.change(image="another"),
    "it is being deleted": lambda world: world.delete(),
    "the finalizer is gone": unprotect,
}


@pytest.mark.parametrize("meanwhile", MEANWHILE.values(), ids=MEANWHILE)
async def test_an_intent_read_again_is_not_sent_where(world: World, meanwhile: Callable[[World], None]) -> None:
    world.pods.listable = False

    def interfere(call: Call) -> None:
        if call.method == "GET":
            world.server.before = lambda _: None
            meanwhile(world)

    world.server.before = interfere
    world.server.faults.append(metadata_fault(500, acted=True))
    world.apply()
    await world.one_pass()
    assert world.pods.calls == []
    await world.wait(40)
    assert len(world.pods.live) == (1 if world.exists() else 0)
    assert world.pods.count("create") <= 1


async def test_a_create_that_was_sent_after_a_lost_intent_write_is_never_taken_for_unsent(world: World) -> None:
    world.pods.listable = False
    world.server.faults.append(metadata_fault(500, acted=True))
    world.pods.fail("create", lost(acted=True))
    world.apply()
    await world.wait(300)
    assert (world.pods.count("create"), world.reason()) == (1, "CreateOutcomeUnknown")


async def test_an_intent_is_not_closed_where_another_wrote_meanwhile(world: World) -> None:
    """Another replica may have sent it, and told so."""
    world.server.faults += [metadata_fault(500, acted=True), read_fault()]
    world.apply()
    await world.one_pass()

    def write(call: Call) -> None:
        if call.status_write:
            world.server.before = lambda _: None
            world.server.edit("gpupods", NAMESPACE, "train", {"metadata": {"labels": {"a": "b"}}})

    world.server.before = write
    before = len(world.server.answers)
    await world.wait(10)
    assert 409 in world.server.answers[before:]
    assert len(world.pods.live) == 1
