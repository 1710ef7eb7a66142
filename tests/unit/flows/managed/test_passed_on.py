"""What another operator manages from now on has one more pass, which tells that, and none after it."""

import pytest

from relay_kube.errors import Unavailable
from relay_operator.api.meta import ObjectKey
from relay_operator.flows.managed.memory import ManagedMemory
from tests.unit.engine.apiserver import Fault
from tests.unit.flows.managed.world import NAMESPACE, World

KEY = ObjectKey("GpuPod", NAMESPACE, "train")


@pytest.fixture
async def passed_on(world: World) -> World:
    """A pod that runs, and is another operator's from now on."""
    world.apply()
    await world.wait(10)
    assert world.reason() == "Running"
    world.reconciler.anothers = lambda _key, _entry: True
    return world


async def test_a_changed_spec_is_told_of_once(passed_on: World) -> None:
    passed_on.change(image="another")
    await passed_on.settle()
    assert passed_on.reason() == "ImmutableFieldChanged"
    assert passed_on.reconciler.memories.get(KEY) is None
    written = len(passed_on.server.writes)
    passed_on.change(image="a third")
    await passed_on.wait(600, step=10)
    assert len(passed_on.server.writes) == written


async def test_what_the_api_server_did_not_take_is_told_again(passed_on: World) -> None:
    passed_on.server.faults.append(Fault(500, method="PATCH", plural="gpupods", status_write=True, times=1))
    passed_on.change(image="another")
    await passed_on.wait(10)
    assert passed_on.reason() == "ImmutableFieldChanged"
    assert passed_on.reconciler.memories.get(KEY) is None


async def test_what_is_deleted_is_left_as_it_is(passed_on: World) -> None:
    passed_on.delete()
    await passed_on.wait(60)
    assert (passed_on.exists(), passed_on.reason(), len(passed_on.pods.live)) == (True, "Running", 1)
    assert passed_on.reconciler.memories.get(KEY) is None


async def test_what_was_never_managed_here_is_left_as_it_is(passed_on: World) -> None:
    passed_on.apply("theirs")
    await passed_on.wait(60)
    assert (passed_on.condition(name="theirs"), len(passed_on.pods.created)) == (None, 1)


async def test_what_keeps_it_from_being_forgotten_is_tried_again(
    passed_on: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgotten, failing = [], [KEY, ObjectKey("GpuPod", NAMESPACE, "theirs")]

    async def forget(_: object, key: ObjectKey, memory: object) -> None:
        if key in failing:
            failing.remove(key)
            raise Unavailable(500, "Scripted", "scripted")
        forgotten.append((key, memory is None))

    monkeypatch.setattr(type(passed_on.flow), "forget", forget)
    passed_on.apply("theirs")
    passed_on.hint()
    await passed_on.wait(60)
    assert (failing, forgotten[0]) == ([], (KEY, False))
    assert passed_on.reconciler.memories.get(KEY) is None


async def test_the_former_object_is_forgotten_before_another_of_its_name_has_its_first_pass(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgotten, failing = list[str](), [KEY]

    async def forget(_: object, key: ObjectKey, memory: ManagedMemory | None) -> None:
        if key in failing:
            failing.remove(key)
            raise Unavailable(500, "Scripted", "scripted")
        forgotten.extend([] if memory is None else [memory.uid])

    monkeypatch.setattr(type(world.flow), "forget", forget)
    world.apply()
    await world.wait(10)
    former = world.obj().metadata.uid
    world.delete(force=True)
    world.apply()
    await world.settle()
    assert (world.pods.count("create"), forgotten) == (1, [])
    await world.wait(10)
    assert (world.pods.count("create"), forgotten, world.reason()) == (2, [former], "Running")
