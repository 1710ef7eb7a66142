"""What the cloud does not show is told to end before its object goes, and is not taken for ended for ever."""

import pytest
from pydantic import JsonValue

from relay_client import Forbidden
from relay_operator.kinds.gpupod import Pod
from relay_wire.vms import VmRecord
from tests.unit.flows.managed.cloudpods import MemoryPods, refused
from tests.unit.flows.managed.world import World


class ListedPods(MemoryPods):
    """Pods that only a list shows, without a state."""

    only_listed = True

    def mirror(self, obj: Pod, observed: VmRecord) -> dict[str, object]:
        return {name: value for name, value in super().mirror(obj, observed).items() if name != "state"}


@pytest.fixture
async def listed(world: World) -> World:
    world.kind = ListedPods
    world.assemble()
    world.apply()
    await world.wait(60)
    assert (world.reason(), world.status().state) == ("Running", None)
    return world


async def test_what_the_list_lacks_for_a_while_ends_with_its_object(listed: World) -> None:
    listed.pods.hidden.add("pod-1")
    listed.delete()
    await listed.wait(30)
    assert (listed.exists(), listed.pods.live, listed.pods.count("delete")) == (False, [], 1)


async def test_what_can_be_read_by_its_id_is_told_to_end_as_well_at_the_first_404(world: World) -> None:
    world.apply()
    await world.wait(60)
    world.pods.hidden.add("pod-1")
    world.delete()
    await world.settle()
    assert (world.exists(), world.pods.live, world.pods.count("delete")) == (True, [], 1)
    await world.wait(30)
    assert (world.exists(), world.pods.count("delete")) == (False, 1)


async def test_what_was_first_not_found_before_its_object_was_deleted_is_told_to_end_as_well(world: World) -> None:
    world.apply()
    await world.wait(60)
    world.pods.hidden.add("pod-1")
    world.hint()
    await world.settle()
    assert world.reason() == "Searching"
    world.clock.seconds += 6
    world.delete()
    await world.wait(30)
    assert (world.exists(), world.pods.live, world.pods.count("delete")) == (False, [], 1)


async def test_what_was_gone_before_is_told_to_end_as_well(listed: World) -> None:
    listed.pods.hidden.add("pod-1")
    listed.hint()
    await listed.wait(60)
    assert (listed.reason(), listed.status().state) == ("TerminatedExternally", "terminated")
    listed.pods.fail("delete", refused(Forbidden))
    listed.delete()
    await listed.wait(60)
    assert listed.exists()
    await listed.wait(400)
    assert (listed.exists(), listed.pods.live, listed.pods.count("delete")) == (False, [], 2)


@pytest.mark.parametrize("policy", ["Stop", "Orphan"])
async def test_what_is_not_to_end_is_not_told_to(listed: World, policy: JsonValue) -> None:
    listed.change(deletionPolicy=policy)
    listed.pods.hidden.add("pod-1")
    listed.delete()
    await listed.wait(60)
    assert (listed.exists(), listed.pods.count("delete")) == (False, 0)


async def test_what_only_its_name_proves_to_be_the_objects_is_not_told_to(listed: World) -> None:
    listed.account.admits = False
    listed.pods.hidden.add("pod-1")
    listed.delete()
    await listed.wait(60)
    assert (listed.exists(), listed.pods.count("delete")) == (False, 0)


async def test_what_is_there_again_is_not_ended_and_one_list_is_not_believed_from_then_on(listed: World) -> None:
    listed.pods.hidden.add("pod-1")
    listed.hint()
    await listed.wait(60)
    assert listed.status().state == "terminated"
    listed.pods.hidden.clear()
    listed.hint()
    await listed.wait(5)
    assert (listed.reason(), listed.status().state, listed.status().state_since) == ("Running", None, None)
    listed.pods.hidden.add("pod-1")
    listed.hint()
    await listed.settle()
    assert listed.reason() == "Searching"
