"""Whatever field of an object cannot be read: once the object is deleted, what it has in the cloud is ended."""

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import pytest
from pydantic import JsonValue, ValidationError

from relay_operator.api import meta
from relay_operator.api.cloudaccount import AccountBudget
from relay_operator.engine.intent import cloud_name
from relay_operator.flows.managed.abilities import brought_in, nameless, unnamed
from relay_operator.kinds import KINDS
from relay_operator.kinds.gpupod import GpuPod
from tests.unit.engine.apiserver import Json, part
from tests.unit.flows.managed.cloudpods import MemoryPods
from tests.unit.flows.managed.every_kind import EXAMPLES, Remembered
from tests.unit.flows.managed.world import BEGINNING, NAMESPACE, World

UID = "0000-aaaa-bbbb"
EVERYTHING = "everything"
RECORDED: JsonValue = {"id": "one", "state": "running", "createToken": "t-0", "attempt": 1, "partOf": "whole"}


def cases() -> Iterator[tuple[str, str]]:
    """Each field of each example, and all of them at once."""
    for kind, example in EXAMPLES.items():
        yield kind, EVERYTHING
        yield from ((kind, field) for field in example.spec if field != "deletionPolicy")


def spoiled(kind: str, field: str) -> Json:
    """The spec, as a release leaves it that knows more than this one."""
    spec = dict(EXAMPLES[kind].spec)
    for name in spec if field == EVERYTHING else [field]:
        if name != "deletionPolicy":
            spec[name] = 7 if isinstance(spec[name], list) else [{}]
    return spec


def made(world: World, kind: str, field: str, status: JsonValue, annotations: JsonValue) -> Remembered:
    """An object that cannot be read, with what it has in the cloud; its account has a budget, so that prices count."""
    cloud = Remembered(kind)
    world.kind = lambda _: cast("MemoryPods", cloud.mapping)
    world.model = cast("type[GpuPod]", cloud.mapping.model)
    world.account.state = replace(world.account.ready, budget=AccountBudget(max_burn_per_hour_cents=1))
    world.server._validate = lambda _raw: None
    world.assemble()
    metadata: Json = {
        "name": "train",
        "namespace": NAMESPACE,
        "uid": UID,
        "finalizers": [meta.FINALIZER],
        "annotations": annotations,
    }
    raw: Json = {"apiVersion": meta.API_VERSION, "kind": kind, "metadata": metadata, "status": status}
    world.model.model_validate(raw | {"spec": dict(EXAMPLES[kind].spec)})
    world.server.put(world.plural, raw | {"spec": spoiled(kind, field)})
    with pytest.raises(ValidationError):
        world.obj()
    return cloud


def open_intent(name: str, part_of: str = "") -> str:
    """Of a create whose answer is lost, as the annotation has it."""
    known = {"token": "t-1", "attempt": 1, "spec_hash": "", "started_at": BEGINNING}
    return meta.CreateIntent.model_validate({**known, "name": name, "part_of": part_of}).to_annotation()


def test_there_is_an_example_of_each_kind_with_a_resource_of_its_own() -> None:
    others = {"CloudAccount", "ClusterCloudAccount", "InferenceBatch", "InferenceBatchSchedule"}
    assert EXAMPLES.keys() == {kind.name for kind in KINDS} - others


@pytest.mark.parametrize(("kind", "field"), [*cases()])
async def test_what_it_has_is_ended(world: World, kind: str, field: str) -> None:
    cloud = made(world, kind, field, RECORDED, {})
    world.delete()
    await world.wait(120)
    left = brought_in(cloud.mapping)
    assert (world.exists(), len(cloud.ended), cloud.there is None) == (False, 0 if left else 1, not left)


@pytest.mark.parametrize(("kind", "field"), [case for case in cases() if not brought_in(EXAMPLES[case[0]].mapping())])
async def test_what_a_lost_create_made_is_ended_or_people_are_asked_about_it(
    world: World, kind: str, field: str
) -> None:
    intent = open_intent(name=cloud_name(NAMESPACE, "train", UID, world.installation, 1), part_of="whole")
    cloud = made(world, kind, field, {"observedGeneration": 1}, {meta.CREATE_INTENT: intent})
    world.delete()
    await world.wait(1200, step=10)
    by = cloud.mapping.told_apart_by
    if not nameless(cloud.mapping) or (not unnamed(cloud.mapping) and field not in {EVERYTHING, *by}):
        assert (world.exists(), len(cloud.ended)) == (False, 1)
        return
    assert told(world).startswith("CreateOutcomeUnknown: a create was sent and its answer is lost: the spec cannot be")
    world.annotate(retry_create="t-1")
    await world.wait(60)
    assert (world.exists(), cloud.ended) == (False, [])


async def test_nothing_is_taken_over_for_its_end_if_nothing_shows_that_it_was_asked_for(world: World) -> None:
    noted: JsonValue = {meta.CREATE_INTENT: open_intent(name="n"), meta.ADOPT_ID: "one"}
    cloud = made(world, "ServingDeployment", "gpu", {"observedGeneration": 1}, noted)
    world.delete()
    await world.wait(1200, step=10)
    assert (world.exists(), cloud.ended) == (True, [])
    assert "adopt-id: the spec cannot be read, so nothing shows that this is what it asks for" in told(world)


def told(world: World) -> str:
    """Reason and message of the condition Stalled."""
    conditions = part(world.raw(), "status")["conditions"]
    assert isinstance(conditions, list)
    rows = [row for row in conditions if isinstance(row, dict) and row["type"] == "Stalled"]
    return "".join(f"{row['reason']}: {row['message']}" for row in rows)
