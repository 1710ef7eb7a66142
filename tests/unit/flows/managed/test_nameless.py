"""What has no name in the cloud is looked for before it is created; what is there already is nobody's to take."""

import pytest

from relay_client import Conflict
from tests.unit.flows.managed.cloudpods import OnePod, lost, refused
from tests.unit.flows.managed.world import World

AN_HOUR = 3600.0


@pytest.fixture
def nameless(world: World) -> World:
    world.kind = OnePod
    world.assemble()
    return world


async def test_what_is_there_already_is_taken_over_only_if_people_say_so(nameless: World) -> None:
    there = nameless.pods.add("by-hand")
    nameless.apply()
    await nameless.settle()
    assert nameless.stalled().startswith("AlreadyExists: it exists already, ")
    assert nameless.stalled().endswith(f"gpupod train gpurelay.dev/adopt-id={there.id}")
    assert (nameless.intent(), nameless.pods.sent) == (None, [])
    nameless.annotate(adopt_id=there.id)
    await nameless.wait(10)
    assert (nameless.status().id, nameless.reason()) == (there.id, "Running")


async def test_what_is_another_objects_is_told_with_its_name(nameless: World) -> None:
    nameless.apply()
    await nameless.wait(10)
    nameless.apply("later")
    await nameless.settle()
    assert (
        nameless.stalled("later")
        == f"AlreadyExists: the resource {nameless.status().id} belongs to GpuPod/team-a/train"
    )
    nameless.delete("later")
    await nameless.settle()
    assert (nameless.exists("later"), len(nameless.pods.live)) == (False, 1)


async def test_a_shared_account_takes_nothing_over(nameless: World) -> None:
    nameless.account.share()
    nameless.pods.add("by-hand")
    nameless.apply()
    await nameless.settle()
    assert nameless.stalled().endswith(
        "not taken over, since the account is shared, and its spec.allowAdoption is not true"
    )


@pytest.mark.parametrize("acted", [True, False])
async def test_a_lost_answer_leads_to_one(nameless: World, acted: bool) -> None:
    nameless.pods.fail("create", lost(acted=acted))
    nameless.apply()
    await nameless.wait(AN_HOUR, step=30)
    assert nameless.reason() == "Running"
    assert [record.id for record in nameless.pods.live] == [nameless.status().id]
    assert nameless.pods.count("create") == (1 if acted else 2)


async def test_a_conflict_says_that_it_is_not_ours(nameless: World) -> None:
    nameless.pods.fail("create", refused(Conflict))

    def another_is_faster(_: str) -> None:
        if not nameless.pods.live:
            nameless.pods.add("by-hand")

    nameless.pods.before_change = another_is_faster
    nameless.apply()
    await nameless.wait(30)
    assert nameless.stalled().startswith("AlreadyExists: ")
    assert (nameless.pods.count("create"), nameless.status().id) == (1, None)
