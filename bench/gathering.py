"""The cost of a pass over one object by the number of known objects: an index finds the others, no search."""

import gc
import logging
import time
from collections.abc import Mapping

from pydantic import JsonValue

from bench.progress import say
from bench.results import Row
from relay_operator.api import meta
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.queue import Priority, Taken
from tests.unit.flows.managed.cloudpods import lost
from tests.unit.flows.managed.world import NAMESPACE, World, running_world

KNOWN = (1_000, 10_000)
PASSES = 100
ROUNDS = 30
SORTS = {
    "settled": "a settled pod",
    "unanswered": "one whose create was not answered",
    "refused": "one that asks to adopt what another has",
}


async def gathering_rows() -> list[Row]:
    """Returns one row per sort of pass."""
    logging.disable(logging.INFO)
    async with running_world() as few, running_world() as many:
        worlds = dict(zip(KNOWN, (few, many), strict=True))
        for known, world in worlds.items():
            say(f"{known:,} objects")
            await _fill(world, known)
        gc.freeze()  # as the operator does once it has read all objects
        return [await _row(worlds, sort) for sort in SORTS]


async def _fill(world: World, known: int) -> None:
    """Creates one settled pod of each sort among so many others."""
    world.pods.listable = False
    world.apply("settled")
    await world.wait(10)
    world.pods.fail("create", lost(acted=True))
    world.apply("unanswered")
    world.apply("refused", annotations={meta.ADOPT_ID: world.status("settled").id})
    await world.wait(600)
    for number in range(known):
        world.informer.seen("GpuPod", _other(number))


async def _row(worlds: Mapping[int, World], name: str) -> Row:
    """Measures both worlds in turn, so that other load affects both alike; the fastest round counts."""
    rounds = [{known: await _passes(world, name) for known, world in worlds.items()} for _ in range(ROUNDS)]
    known = " and ".join(f"{count:,}" for count in worlds)
    figure = ", ".join(f"{min(each[count] for each in rounds) * 1e6:.0f} µs" for count in worlds)
    return f"CPU of a pass with {known} objects known, over {SORTS[name]}", figure, "the same for both"


async def _passes(world: World, name: str) -> float:
    """Returns the CPU seconds of one pass; the cloud is a dictionary, and a call to the API server is an error."""
    taken = Taken(ObjectKey("GpuPod", NAMESPACE, name), Priority.EVENT, 0.0)
    calls, before = len(world.server.calls), time.process_time()
    for _ in range(PASSES):
        await world.reconciler.reconcile(taken)
    took = time.process_time() - before
    assert len(world.server.calls) == calls, f"a pass over {name} asks the API server"
    return took / PASSES


def _other(number: int) -> dict[str, JsonValue]:
    """Returns a pod of the same account: settled, or, for one in three, with an unanswered create."""
    intent = meta.CreateIntent.model_validate(
        {
            "token": f"other-{number}",
            "name": f"other-{number}",
            "attempt": 1,
            "specHash": "",
            "startedAt": "2026-03-01T12:00:00Z",
            "account": "CloudAccount/default",
        }
    )
    ended: dict[str, JsonValue] = {"id": f"other-{number}", "createToken": intent.token}
    return {
        "kind": "GpuPod",
        "metadata": {
            "name": f"other-{number}",
            "namespace": NAMESPACE,
            "uid": f"other-{number}",
            "resourceVersion": str(1_000_000 + number),
            "generation": 1,
            "finalizers": [meta.FINALIZER],
            "annotations": {meta.CREATE_INTENT: intent.to_annotation()},
        },
        "spec": {"image": "pytorch/pytorch"},
        "status": {"observedGeneration": 1, **({} if number % 3 == 0 else ended)},
    }
