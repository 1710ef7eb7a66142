"""A restored object takes over what the former one had, and nothing else."""

import json

import pytest

from relay_operator.api.conditions import ConditionType
from relay_operator.api.meta import ADOPT_ID, CREATE_INTENT
from tests.unit.engine.apiserver import Json, part
from tests.unit.flows.managed.cloudpods import lost
from tests.unit.flows.managed.copies import copy_of
from tests.unit.flows.managed.world import World


def _parsed(raw: Json) -> Json:
    """What the intent on it says."""
    said: Json = json.loads(str(part(part(raw, "metadata"), "annotations")[CREATE_INTENT]))
    return said


async def _before_an_heir(world: World) -> Json:
    """The backup of an object that ended; since then an heir's create was acted on, and its answer is lost."""
    world.apply()
    await world.settle()
    backup = copy_of(world.raw())
    world.delete()
    await world.wait(10)
    world.pods.listable = False
    world.pods.fail("create", lost(acted=True))
    world.apply("heir")
    await world.settle()
    return backup


async def test_a_restored_object_takes_over_what_the_former_one_had(world: World) -> None:
    world.apply()
    await world.settle()
    backup = copy_of(world.raw())
    world.delete(force=True)
    await world.settle()
    world.server.put("gpupods", backup)
    await world.wait(10)
    assert (world.status().id, len(world.pods.created), world.reason()) == ("pod-1", 1, "Running")
    recorded = world.status().identity
    assert recorded is not None
    assert recorded.uid == world.obj().metadata.uid
    world.delete()
    await world.wait(10)
    assert (world.exists(), world.pods.live) == (False, [])


async def test_a_restored_object_that_is_deleted_ends_what_the_former_one_had(world: World) -> None:
    world.apply()
    await world.settle()
    backup = copy_of(world.raw(), deletionTimestamp="2026-03-01T12:00:00Z")
    world.delete(force=True)
    await world.settle()
    world.server.put("gpupods", backup)
    await world.wait(10)
    assert (world.exists(), world.pods.live) == (False, [])


async def test_a_restored_object_finds_what_an_open_intent_led_to(world: World) -> None:
    world.apply()
    await world.settle()
    backup = copy_of(world.raw())
    backup["status"] = {"observedGeneration": -1}
    world.delete(force=True)
    await world.settle()
    world.server.put("gpupods", backup)
    await world.one_pass()
    recorded = world.status().identity
    assert recorded is not None
    assert (world.status().id, recorded.uid, len(world.pods.created)) == ("pod-1", world.obj().metadata.uid, 1)
    await world.wait(400)
    intent = world.readable_intent()
    assert (intent.token, intent.identity) == (world.status().create_token, recorded)


@pytest.mark.parametrize("status", [True, False], ids=["with status", "without"])
async def test_a_restore_that_may_not_be_taken_over_stalls_and_creates_nothing(world: World, status: bool) -> None:
    world.account.share()
    world.apply()
    await world.settle()
    backup = copy_of(world.raw())
    if not status:
        backup["status"] = {"observedGeneration": -1}
    world.delete(force=True)
    await world.settle()
    world.server.put("gpupods", backup)
    await world.wait(700)
    assert (world.reason(), len(world.pods.created)) == ("AdoptionRefused", 1)
    stalled = world.condition(ConditionType.STALLED)
    assert stalled is not None
    assert "allowAdoption" in stalled.message
    world.delete()
    await world.wait(10)
    assert (world.exists(), len(world.pods.live)) == (False, 1)


async def test_a_restore_takes_nothing_from_whoever_has_it_by_now(world: World) -> None:
    world.apply()
    await world.settle()
    backup = copy_of(world.raw())
    world.delete(force=True)
    await world.settle()
    world.apply("heir", annotations={ADOPT_ID: "pod-1"})
    await world.wait(10)
    assert world.status("heir").id == "pod-1"
    world.server.put("gpupods", backup)
    await world.wait(10)
    assert (world.reason(), len(world.pods.created)) == ("AdoptionRefused", 1)
    assert "heir" in str(world.condition(ConditionType.STALLED))


@pytest.mark.parametrize("status", [True, False], ids=["with status", "without"])
async def test_a_restore_takes_nothing_that_was_made_for_another(world: World, status: bool) -> None:
    """The heir's create was acted on, its answer is lost, and what the backup says names the very resource."""
    backup = await _before_an_heir(world)
    if status:
        backup["status"] = part(backup, "status") | {"id": "pod-2", "cloudName": world.pods.records["pod-2"].name}
    else:
        backup["status"] = {"observedGeneration": -1}
        told = _parsed(backup) | {"name": world.pods.records["pod-2"].name}
        part(part(backup, "metadata"), "annotations")[CREATE_INTENT] = json.dumps(told)
    world.pods.listable = True
    world.server.put("gpupods", backup)
    await world.wait(2)
    assert (world.reason(), world.status("heir").id) == ("AdoptionRefused", None)
    world.pods.listable = True
    assert "belongs to GpuPod/team-a/heir" in str(world.condition(ConditionType.STALLED))
    await world.wait(60)
    assert (world.reason(), world.status("heir").id, world.pods.count("create")) == ("AdoptionRefused", "pod-2", 2)


async def test_a_restore_ends_nothing_that_was_made_for_another_when_it_can_no_longer_be_looked_at(
    world: World,
) -> None:
    backup = await _before_an_heir(world)
    backup["status"] = part(backup, "status") | {"id": "pod-2", "cloudName": world.pods.records["pod-2"].name}
    world.server.put("gpupods", backup)
    await world.wait(2)
    assert (world.reason(), world.status("heir").id) == ("AdoptionRefused", None)
    world.pods.random_failure = lambda call: lost(acted=False) if call == "observe" else None
    world.delete()
    await world.wait(60)
    assert [record.id for record in world.pods.live] == ["pod-2"]


async def test_a_restored_object_whose_resource_is_gone_says_so(world: World) -> None:
    world.apply()
    await world.settle()
    backup = copy_of(world.raw())
    world.delete(force=True)
    world.pods.become("pod-1", "terminated")
    await world.settle()
    world.server.put("gpupods", backup)
    await world.wait(60)
    assert (world.reason(), len(world.pods.created)) == ("TerminatedExternally", 1)
