"""What two objects record is changed and ended by neither."""

import pytest

from relay_operator.api.meta import ADOPT_ID, PAUSED
from tests.unit.engine.apiserver import Json
from tests.unit.flows.managed.cloudpods import lost
from tests.unit.flows.managed.world import NAMESPACE, World


async def _with_one_id(world: World) -> None:
    """What a failover between a check and a write can lead to: `other` records the pod of `train`."""
    world.apply()
    world.apply("other", annotations={ADOPT_ID: world.pods.add("by-hand").id})
    await world.wait(10)
    _record_too(world)


def _record_too(world: World) -> None:
    changed: Json = {"status": {"id": world.status().id, "cloudName": world.status().cloud_name}}
    world.server.edit("gpupods", NAMESPACE, "other", changed, status=True)


async def test_what_two_objects_record_is_changed_and_ended_by_neither(world: World) -> None:
    await _with_one_id(world)
    cloud_id = world.status().id
    await world.settle()
    for name, another in (("train", "other"), ("other", "train")):
        assert world.stalled(name).startswith(
            f"IdentityMismatch: the resource {cloud_id} is also recorded by GpuPod/team-a/{another}"
        )
        world.change(name, powerState="Stopped")
        world.delete(name)
    changes = len(world.pods.calls)
    await world.wait(700)
    assert set(world.pods.calls[changes:]) <= {"observe"}
    assert (world.exists(), world.exists("other")) == (True, True)
    world.annotate("other", abandon="true")
    await world.wait(10)
    assert (world.exists(), world.exists("other")) == (False, False)
    assert cloud_id not in {record.id for record in world.pods.live}


async def test_an_id_without_a_name_is_not_believed_if_another_object_gave_the_name(world: World) -> None:
    """Whoever may write a status may know an id before its own object has recorded it."""
    world.pods.listable = False
    world.pods.fail("create", lost(acted=True))
    world.apply()
    await world.one_pass()
    (victim,) = world.pods.live
    world.apply("other", annotations={PAUSED: "true"})
    await world.settle()
    world.server.edit("gpupods", NAMESPACE, "other", {"status": {"id": victim.id}}, status=True)
    world.annotate("other", paused=None)
    await world.settle()
    assert world.stalled("other").startswith(
        f"IdentityMismatch: the resource {victim.id} belongs to GpuPod/team-a/train"
    )
    world.change("other", powerState="Stopped")
    world.delete("other")
    await world.wait(60)
    assert victim in world.pods.live
    assert world.pods.count("stop") == 0


async def test_both_go_on_once_one_of_them_lets_go(world: World) -> None:
    await _with_one_id(world)
    await world.settle()
    world.server.edit("gpupods", NAMESPACE, "other", {"status": {"id": "pod-9", "cloudName": None}}, status=True)
    await world.settle()
    assert (world.reason(), world.stalled("train")) == ("Running", "")


@pytest.mark.parametrize("call", ["delete", "stop"])
async def test_the_guard_of_a_request_asks_again_who_records_it(world: World, call: str) -> None:
    await _with_one_id(world)
    world.server.edit("gpupods", NAMESPACE, "other", {"status": {"id": "pod-9"}}, status=True)
    await world.settle()

    def just_then(asked: str) -> None:
        if asked == call:
            _record_too(world)

    world.pods.before_change = just_then
    if call == "delete":
        world.delete()
    else:
        world.change(powerState="Stopped")
    await world.wait(10)
    assert world.pods.count(call) == 0
    assert world.stalled("train").startswith("IdentityMismatch")
