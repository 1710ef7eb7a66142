"""What has no name in the cloud is looked for before it is created; what is there already is nobody's to take."""

from dataclasses import replace

import pytest

from relay_client import Cloud, Conflict
from relay_operator.api.meta import CREATE_INTENT
from relay_operator.kinds.gpupod import Pod
from relay_wire.vms import VmRecord
from tests.unit.flows.managed.cloudpods import OnePod, lost, refused
from tests.unit.flows.managed.world import World

AN_HOUR = 3600.0


class PodsThatShowNothing(OnePod):
    """Pods whose rows do not show what they are."""

    async def existing(self, cloud: Cloud, obj: Pod) -> VmRecord | None:
        return None

    async def may_exist(self, cloud: Cloud, obj: Pod) -> bool:
        return bool(self.pods.live)


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


async def test_a_row_that_may_be_it_is_no_reason_to_create_another(world: World) -> None:
    world.kind = PodsThatShowNothing
    world.assemble()
    world.account.state = replace(world.account.ready, resend_unknown=True)  # it sends a name again: there is none
    world.pods.fail("create", lost(acted=True))
    world.apply()
    await world.wait(AN_HOUR, step=30)
    assert world.stalled().startswith("CreateOutcomeUnknown: ")
    assert "the cloud's list does not show what became of it: look in the cloud for what the spec" in world.stalled()
    assert (world.pods.count("create"), len(world.pods.live)) == (1, 1)
    world.annotate(adopt_id="pod-1")
    await world.wait(10)
    assert (world.reason(), world.status().id, world.pods.count("create")) == ("Running", "pod-1", 1)


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


@pytest.mark.parametrize("deleted", [False, True])
async def test_what_another_object_sends_meanwhile_is_the_others(nameless: World, deleted: bool) -> None:
    """As when the object is renamed in Git: the one that goes must not end what the next one has just made."""
    nameless.pods.fail("create", lost(acted=False))
    nameless.apply()
    await nameless.one_pass()
    theirs = nameless.readable_intent().model_copy(update={"token": "theirs", "name": "second", "identity": None})
    if deleted:
        nameless.delete()
    nameless.apply("second", annotations={CREATE_INTENT: theirs.to_annotation()})
    there = nameless.pods.add("theirs")
    await nameless.wait(5)
    assert (nameless.exists(), nameless.status().id, nameless.pods.live) == (True, None, [there])
