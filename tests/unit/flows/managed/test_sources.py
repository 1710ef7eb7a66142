"""What others are made of is neither stopped nor ended while one is being made, and only then."""

from typing import Any

import pytest
from pydantic import JsonValue

from relay_operator.api.meta import PAUSED, PLAN_ONLY, ObjectKey
from relay_operator.engine.queue import Priority
from tests.unit.engine.apiserver import Json
from tests.unit.flows.managed.cloudpods import MemoryPods
from tests.unit.flows.managed.world import NAMESPACE, World

SHOT = ObjectKey("VmSnapshot", NAMESPACE, "nightly")
HELD: JsonValue = [{"kind": "GpuPod", "name": "train", "id": "pod-1"}]
OFF: JsonValue = [{"type": "Ready", "status": "False", "reason": "KindDisabled"}]


class SourcePods(MemoryPods):
    """Pods of which snapshots are made."""

    is_source = True


@pytest.fixture
async def source(world: World) -> World:
    """One pod, which runs."""
    world.kind = SourcePods
    world.assemble()

    def related(key: ObjectKey) -> None:
        if key.kind == "GpuPod":
            world.queue.add(key, Priority.CHANGE)

    world.cache.on_related = related
    world.apply(updateStrategy={"type": "Recreate"})
    await world.wait(10)
    return world


def shot(world: World, version: int, references: JsonValue = None, **changes: dict[str, Any]) -> None:
    """The snapshot as the watch tells of it."""
    metadata: Json = {"name": SHOT.name, "namespace": NAMESPACE, "uid": "shot", "resourceVersion": str(version)}
    status: Json = {"id": "snap-1", "references": references}
    metadata, status = metadata | changes.get("metadata", {}), status | changes.get("status", {})
    world.cache.put(SHOT, {"metadata": metadata, "spec": {}, "status": status})


async def test_a_stop_waits_until_it_is_made_and_then_comes_at_once(source: World) -> None:
    shot(source, 10, HELD)
    source.change(powerState="Stopped", updateStrategy={"type": "Recreate"})
    await source.wait(400)
    assert (source.reason(), source.pods.count("stop")) == ("InUse", 0)
    assert source.message() == ("in use by VmSnapshot nightly, being made of it: it is stopped or ended after that")
    shot(source, 11)
    await source.settle()
    assert source.pods.count("stop") == 1
    await source.wait(10)
    assert source.reason() == "Stopped"


async def test_so_do_its_end_and_its_replacement(source: World) -> None:
    shot(source, 10, HELD)
    source.change(image="pytorch/another", updateStrategy={"type": "Recreate"})
    await source.wait(400)
    assert (source.reason(), source.pods.count("delete")) == ("InUse", 0)
    source.delete()
    await source.wait(400)
    assert (source.reason(), source.pods.count("delete")) == ("InUse", 0)
    source.cache.drop(SHOT)
    await source.settle()
    assert source.pods.count("delete") == 1
    await source.wait(10)
    assert not source.exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"metadata": {"deletionTimestamp": "2026-03-01T12:00:00Z"}},
        {"metadata": {"annotations": {PAUSED: "true"}}},
        {"status": {"conditions": OFF}},
    ],
    ids=["it is being deleted", "it is paused", "its kind is switched off"],
)
async def test_nothing_waits_for_what_nobody_makes_any_more(source: World, changes: dict[str, Any]) -> None:
    shot(source, 10, HELD, **changes)
    source.change(powerState="Stopped", updateStrategy={"type": "Recreate"})
    await source.wait(10)
    assert source.reason() == "Stopped"


async def test_what_is_being_made_is_followed_and_waited_for_though_it_only_plans(source: World) -> None:
    shot(source, 10, HELD, metadata={"annotations": {PLAN_ONLY: "true"}})
    source.change(powerState="Stopped", updateStrategy={"type": "Recreate"})
    await source.wait(10)
    assert (source.reason(), source.pods.count("stop")) == ("InUse", 0)
    shot(source, 11, metadata={"annotations": {PLAN_ONLY: "true"}})
    await source.wait(10)
    assert source.reason() == "Stopped"


@pytest.mark.parametrize("end", ["stop", "delete"])
async def test_what_begins_before_the_request_is_sent_is_waited_for(source: World, end: str) -> None:
    def begins(call: str) -> None:
        if call == end and source.cache.get(SHOT) is None:
            shot(source, 10, HELD)

    source.pods.before_change = begins
    if end == "stop":
        source.change(powerState="Stopped", updateStrategy={"type": "Recreate"})
    else:
        source.delete()
    await source.wait(100)
    assert (source.reason(), source.pods.count(end)) == ("InUse", 0)
    shot(source, 11)
    await source.wait(10)
    assert source.pods.count(end) == 1


async def test_what_runs_on_is_as_ready_as_before(source: World) -> None:
    shot(source, 10, HELD)
    source.hint()
    await source.settle()
    assert source.reason() == "Running"
