"""Under CRDs that are older than this release nothing is created, and what waited goes on once they are not."""

import copy

from pydantic import JsonValue

from relay_operator.api.meta import GROUP, VERSION
from relay_operator.crds.definitions import object_schema
from relay_operator.kinds.gpupod import DEFINITION
from tests.unit.engine.apiserver import Json, part
from tests.unit.flows.managed.world import World

NEEDED = object_schema(DEFINITION)
PATH = (GROUP, "", VERSION)
"""Where the small API server keeps the OpenAPI document."""


def serve(world: World, schema: Json) -> None:
    """The API server has this CRD."""
    told: JsonValue = [{"group": GROUP, "version": VERSION, "kind": "GpuPod"}]
    own: JsonValue = {**schema, "x-kubernetes-group-version-kind": told}
    world.server.objects[PATH] = {"components": {"schemas": {"pod": own}}}


def older() -> Json:
    schema = copy.deepcopy(NEEDED)
    del part(part(part(schema, "properties"), "status"), "properties")["identity"]
    return schema


async def compared(world: World) -> None:
    engine = world.reconciler.engine
    engine.served.needed = lambda: {"GpuPod": ("gpupods.gpurelay.dev", NEEDED)}
    engine.served.remedy = "apply them"
    await engine.served.compare(engine.kube, engine.cache, engine.queue)


async def test_nothing_is_created_until_the_crds_are_up_to_date(world: World) -> None:
    serve(world, older())
    await compared(world)
    world.apply()
    world.apply("other", powerState="Stopped")
    await world.wait(10)
    ready = world.condition()
    assert ready is not None
    assert (ready.reason, ready.message.endswith("run: apply them"), world.pods.created) == ("CrdOutdated", True, [])
    await compared(world)
    serve(world, NEEDED)
    await compared(world)
    await world.wait(10)
    assert (world.reason(), world.reason("other")) == ("Running", "Stopped")


async def test_what_runs_is_ended_under_older_crds_as_well(world: World) -> None:
    world.apply()
    await world.wait(10)
    serve(world, older())
    await compared(world)
    world.delete()
    await world.wait(10)
    assert (world.exists(), world.pods.live) == (False, [])


async def test_crds_that_cannot_be_read_hold_nothing_up(world: World) -> None:
    await compared(world)
    world.apply()
    await world.wait(10)
    assert world.reason() == "Running"
    assert world.reconciler.engine.served.outdated == ""
