"""A namespace that the account does not admit any more: an object of it ends what it made, and nothing else."""

from __future__ import annotations

import json

import pytest
from pydantic import JsonValue

from relay_operator.api import meta
from relay_operator.engine.intent import cloud_name
from tests.unit.engine.apiserver import part
from tests.unit.flows.managed.cloudpods import OnePod, lost
from tests.unit.flows.managed.former import KeptPods, former, uses
from tests.unit.flows.managed.world import NAMESPACE, World


def given(world: World, attempt: int = 1) -> str:
    """The name that the object `train` gives."""
    uid = str(part(world.raw(), "metadata")["uid"])
    return cloud_name(NAMESPACE, "train", uid, "c0ffe", attempt)


def forge(world: World, **status: JsonValue) -> None:
    """What somebody writes who may write `/status`."""
    world.server.edit("gpupods", NAMESPACE, "train", {"status": status}, status=True)


def hold(world: World) -> None:
    """A finalizer as the operator writes it, on an object that it made nothing for."""
    world.server.edit("gpupods", NAMESPACE, "train", {"metadata": {"finalizers": [meta.FINALIZER]}})


async def expel(world: World) -> None:
    world.account.admits = False
    await world.wait(400)


async def test_what_was_made_is_left_as_it_is_and_ended_when_its_object_is_deleted(world: World) -> None:
    world.apply()
    await world.wait(20)
    calls = list(world.pods.calls)
    await expel(world)
    assert world.stalled().startswith("AccountNotAllowed: ")
    assert world.pods.calls == calls
    world.delete()
    await world.wait(20)
    assert (world.exists(), world.pods.live, world.pods.count("delete")) == (False, [], 1)


async def test_a_policy_to_stop_is_heeded(world: World) -> None:
    world.apply(deletionPolicy="Stop")
    await world.wait(20)
    await expel(world)
    world.delete()
    await world.wait(20)
    assert (world.exists(), [one.status for one in world.pods.live]) == (False, ["stopped"])


async def test_what_a_lost_answer_was_about_is_found_and_ended(world: World) -> None:
    world.pods.listable = False
    world.pods.fail("create", lost(acted=True))
    world.apply()
    await world.wait(20)
    await expel(world)
    world.pods.listable = True
    world.delete()
    await world.wait(20)
    assert (world.exists(), world.pods.live) == (False, [])


async def test_what_was_adopted_stays_until_the_namespace_is_admitted_again(world: World) -> None:
    there = world.pods.add("by-hand", fields={"imageUrl": "pytorch/pytorch", "gpuCount": 1})
    world.apply(annotations={meta.ADOPT_ID: there.id})
    await world.wait(20)
    assert world.status().id == there.id
    await expel(world)
    calls = list(world.pods.calls)
    world.delete()
    await world.wait(400)
    assert world.stalled().startswith("AccountNotAllowed: ")
    assert "abandon" in world.stalled()
    assert world.pods.calls == calls
    world.account.admits = True
    await world.wait(400)
    assert (world.exists(), world.pods.live) == (False, [])


@pytest.mark.parametrize("shown", ["of-another", ""], ids=["named", "without a name"])
async def test_a_forged_status_ends_nothing_that_the_cloud_does_not_show_under_the_objects_name(
    world: World, shown: str
) -> None:
    world.account.admits = False
    victim = world.pods.add(shown)
    world.apply()
    await world.settle()
    hold(world)
    forge(world, id=victim.id, cloudName=given(world), createToken="forged")
    world.delete()
    await world.wait(400)
    assert world.stalled().startswith("IdentityMismatch: ")
    assert [one.id for one in world.pods.live] == [victim.id]
    assert world.pods.count("delete") == 0


@pytest.mark.parametrize("adoption", ["", "pod-1"], ids=["an intent", "with adopt-id"])
async def test_a_forged_intent_with_a_name_of_another_object_is_not_even_searched_for(
    world: World, adoption: str
) -> None:
    world.account.admits = False
    victim = world.pods.add("of-another")
    world.apply()
    await world.settle()
    hold(world)
    intent = {
        "token": "forged",
        "name": victim.name,
        "attempt": 1,
        "specHash": "",
        "startedAt": "2026-03-01T12:00:00Z",
        "account": "ClusterCloudAccount/shared",
    }
    world.annotate(create_intent=json.dumps(intent), adopt_id=adoption)
    world.delete()
    await world.wait(400)
    assert world.stalled().startswith("AccountNotAllowed: ")
    assert world.pods.calls == []
    world.annotate(abandon="true")  # with it, an administrator frees the account that the intent names
    await world.wait(10)
    assert (world.exists(), world.pods.calls, [one.id for one in world.pods.live]) == (False, [], [victim.id])


async def test_a_kind_without_names_proves_nothing(world: World) -> None:
    world.kind = OnePod
    world.assemble()
    world.apply()
    await world.wait(20)
    await expel(world)
    world.delete()
    await world.wait(400)
    assert world.stalled().startswith("AccountNotAllowed: ")
    assert len(world.pods.live) == 1


@pytest.fixture
async def replaced(world: World) -> World:
    """A pod that took the place of a former one, which a VM used until now."""
    world.kind = KeptPods
    world.assemble()
    world.apply(updateStrategy={"type": "Recreate"})
    await world.wait(60)
    (first,) = world.pods.records
    uses(world, 10, first)
    world.change(image="another")
    await world.wait(60)
    assert former(world) == [first]
    return world


async def test_a_former_resource_ends_with_the_present_one(replaced: World) -> None:
    await expel(replaced)
    uses(replaced, 11)
    replaced.delete()
    await replaced.wait(60)
    assert (replaced.exists(), replaced.pods.live) == (False, [])


async def test_a_former_resource_that_the_cloud_does_not_name_is_neither_ended_nor_forgotten(replaced: World) -> None:
    await expel(replaced)
    uses(replaced, 11)
    (first,) = former(replaced)
    name = replaced.pods.records[first].name
    replaced.pods.become(first, "running", name="")
    replaced.delete()
    await replaced.wait(400)
    assert former(replaced) == [first]
    assert [record.id for record in replaced.pods.live] == [first]
    replaced.account.admits = True
    await replaced.wait(400)
    assert (former(replaced), replaced.pods.live) == ([first], [])  # without a name, its end is not believed
    replaced.pods.become(first, "terminated", name=name)
    await replaced.wait(400)
    assert not replaced.exists()
