"""The cloud refuses to end a former resource: it is asked again and again, and nothing else waits for that."""

import pytest

from relay_client import BadRequest, Conflict, NotFound
from relay_operator.api.conditions import ConditionType
from tests.unit.flows.managed.blue_green import becomes, ids, live, status
from tests.unit.flows.managed.cloudpods import Failure, lost, refused
from tests.unit.flows.managed.former import KeptPods, former, uses
from tests.unit.flows.managed.shown_once import CANARY, kept
from tests.unit.flows.managed.world import World, fixed_random

BUSY = "the former one, pod-1, cannot be ended: it is busy"


@pytest.fixture
async def stuck(both: World) -> World:
    """The new one has taken the place of the old one, whose drain is over, and whose end the cloud refuses."""
    both.pods.unendable.add("pod-1")
    becomes(both, "pod-2", "running")
    await both.wait(120)
    assert (ids(both), live(both)) == (["pod-2", "pod-1"], ["pod-1", "pod-2"])
    return both


@pytest.fixture
async def unstarted(stuck: World) -> World:
    """The cloud refuses to start the new one again as well."""
    stuck.change(powerState="Stopped")
    await stuck.wait(400, step=10)
    stuck.pods.fail("start", *[refused(BadRequest)] * 20)
    stuck.change(powerState="Running")
    await stuck.settle()
    return stuck


async def test_it_is_told_and_asked_again_ever_more_slowly_until_it_is_gone(stuck: World) -> None:
    assert (stuck.reason(), stuck.condition(ConditionType.RECONCILING) is not None) == ("Conflict", True)
    assert stuck.message().endswith(BUSY)
    asked = stuck.pods.count("delete")
    assert 4 <= asked <= 7
    await stuck.wait(3600, step=10)
    assert 10 <= stuck.pods.count("delete") - asked <= 25
    assert (stuck.message().endswith(BUSY), ids(stuck)) == (True, ["pod-2", "pod-1"])
    stuck.pods.unendable.clear()
    await stuck.wait(330, step=10)
    assert (stuck.reason(), ids(stuck), live(stuck)) == ("Running", ["pod-2"], ["pod-2"])


async def test_a_webhook_does_not_make_the_cloud_be_asked_earlier_and_people_do(stuck: World) -> None:
    await stuck.wait(600, step=10)
    asked, written = stuck.pods.count("delete"), len(stuck.server.writes)
    for _ in range(5):
        stuck.hint()
        await stuck.settle()
    assert (stuck.pods.count("delete"), len(stuck.server.writes)) == (asked, written)
    stuck.annotate(reconcile_at="now")
    await stuck.settle()
    assert stuck.pods.count("delete") == asked + 1


async def test_another_process_asks_again_at_once(stuck: World) -> None:
    await stuck.wait(600, step=10)
    asked = stuck.pods.count("delete")
    await stuck.restart()
    await stuck.settle()
    assert (stuck.pods.count("delete"), stuck.message().endswith(BUSY)) == (asked + 1, True)


async def test_what_is_to_stop_is_stopped_once(stuck: World) -> None:
    stuck.change(powerState="Stopped")
    await stuck.wait(60)
    assert (stuck.pods.count("stop"), stuck.pods.records["pod-2"].status) == (1, "stopped")
    assert (stuck.reason(), stuck.message().endswith(BUSY), ids(stuck)) == ("Conflict", True, ["pod-2", "pod-1"])
    stuck.pods.unendable.clear()
    await stuck.wait(330, step=10)
    assert (stuck.reason(), ids(stuck)) == ("Stopped", ["pod-2"])


async def test_what_is_wrong_with_the_present_one_leads(stuck: World) -> None:
    becomes(stuck, "pod-2", "failed")
    await stuck.wait(5)
    assert (stuck.reason(), stuck.message().endswith(BUSY)) == ("Failed", True)


async def test_a_refused_start_keeps_its_time(unstarted: World) -> None:
    asked = unstarted.pods.count("delete")
    await unstarted.restart()  # so that the cloud is asked about the former one often
    await unstarted.wait(290)
    starts, ends = unstarted.pods.count("start"), unstarted.pods.count("delete")
    assert (unstarted.reason(), starts, ends > asked) == ("SpecInvalid", 1, True)


async def test_what_was_refused_of_the_present_one_stays_told_when_the_former_one_goes(unstarted: World) -> None:
    refusal, agreed = unstarted.message(), status(unstarted).next_attempt_time
    unstarted.pods.unendable.clear()
    await unstarted.restart()
    await unstarted.wait(200)
    assert (live(unstarted), unstarted.reason(), unstarted.pods.count("start")) == (["pod-2"], "SpecInvalid", 1)
    assert (unstarted.message(), status(unstarted).next_attempt_time) == (refusal, agreed)
    since = len(unstarted.server.calls)
    await unstarted.wait(900, step=10)
    assert (ids(unstarted), unstarted.reason()) == (["pod-2"], "SpecInvalid")
    assert not any('"type":"Ready","status":"True"' in call.body for call in unstarted.server.calls[since:])


@pytest.mark.parametrize("policy", ["Delete", "Stop"])
async def test_what_is_deleted_goes_though_the_former_one_does_not_and_the_object_waits(
    stuck: World, policy: str
) -> None:
    stuck.change(deletionPolicy=policy)
    stuck.delete()
    await stuck.wait(30)
    assert stuck.exists()
    present, deletes = stuck.pods.records["pod-2"].status, stuck.pods.count("delete")
    assert present == ("terminated" if policy == "Delete" else "stopped")
    assert (stuck.reason(), stuck.message().endswith(BUSY)) == ("Conflict", True)
    assert status(stuck).former is not None
    await stuck.wait(600, step=10)
    assert (stuck.exists(), stuck.pods.records["pod-1"].status) == (True, "running")
    assert (stuck.pods.count("stop"), stuck.pods.count("delete") > deletes) == (int(policy == "Stop"), True)
    await stuck.restart()
    await stuck.wait(60)
    assert stuck.exists()
    stuck.pods.unendable.clear()
    await stuck.wait(330, step=10)
    assert (stuck.exists(), live(stuck)) == (False, [] if policy == "Delete" else ["pod-2"])


@pytest.mark.parametrize("policy", ["Delete", "Stop"])
async def test_what_the_cloud_refuses_of_both_is_told_in_one_message_and_with_one_write_each_time(
    stuck: World, policy: str
) -> None:
    """Both are asked about again at about the same time."""
    stuck.pods.unendable.add("pod-2")
    stuck.pods.fail("stop", *[refused(Conflict)] * 1000)
    stuck.random = fixed_random(7)
    await stuck.restart()
    stuck.change(deletionPolicy=policy)
    stuck.delete()
    await stuck.wait(30)
    told, refusals, since = stuck.message(), status(stuck).failures or 0, len(stuck.server.calls)
    assert told.endswith(f"; {BUSY}")
    await stuck.wait(7200, step=5)
    writes = [call.body for call in stuck.server.calls[since:] if call.status_write]
    assert 20 <= len(writes) == (status(stuck).failures or 0) - refusals
    assert (stuck.message(), [body for body in writes if "conditions" in body]) == (told, [])


async def test_people_who_ask_for_another_look_get_an_answer_while_both_ends_are_refused(stuck: World) -> None:
    stuck.pods.unendable.add("pod-2")
    stuck.delete()
    await stuck.wait(600, step=10)
    asked = stuck.pods.count("delete")
    stuck.annotate(reconcile_at="now")
    await stuck.settle()
    assert (stuck.pods.count("delete"), status(stuck).reconcile_at) == (asked + 2, "now")
    assert stuck.message().endswith(f"; {BUSY}")


async def test_neither_end_waits_for_the_other(both: World) -> None:
    """Nobody confirms either for a while."""
    becomes(both, "pod-2", "running")
    await both.wait(5)

    def undo(_call: str) -> None:
        for each in both.pods.records:
            both.pods.become(each, "running")

    both.pods.on_call = undo
    both.delete()
    await both.wait(10)
    assert (both.pods.count("delete"), both.exists()) == (2, True)
    both.pods.on_call = lambda _call: None
    await both.wait(60)
    assert (both.exists(), live(both)) == (False, [])


@pytest.mark.parametrize(("known", "left"), [(True, []), (False, ["pod-1"])])
async def test_what_is_deleted_goes_though_the_former_one_cannot_be_read(
    both: World, *, known: bool, left: list[str]
) -> None:
    becomes(both, "pod-2", "running")
    await both.wait(5)
    looks = 0
    if not known:
        await both.restart()

    def every_second(call: str) -> Failure | None:
        nonlocal looks
        looks += call == "observe"
        return lost(acted=False) if call == "observe" and looks % 2 == 0 else None

    both.pods.random_failure = every_second
    both.delete()
    await both.wait(60)
    assert (both.exists(), live(both)) == (True, left)
    both.pods.random_failure = lambda _call: None
    await both.wait(330, step=5)
    assert (both.exists(), live(both)) == (False, [])


async def test_a_former_one_is_ended_while_reads_fail_though_the_end_of_the_present_one_is_refused(both: World) -> None:
    becomes(both, "pod-2", "running")
    await both.wait(5)
    both.pods.unendable.add("pod-2")
    both.pods.random_failure = lambda call: lost(acted=False) if call == "observe" else None
    both.delete()
    await both.wait(60)
    assert live(both) == ["pod-2"]


async def test_a_former_one_that_the_cloud_showed_last_as_anothers_is_not_ended_while_reads_fail(both: World) -> None:
    becomes(both, "pod-2", "running")
    await both.wait(5)
    both.pods.become("pod-1", "running", name="theirs")
    both.pods.unendable.add("pod-2")
    both.delete()
    await both.wait(60)
    both.pods.random_failure = lambda call: lost(acted=False) if call == "observe" else None
    await both.wait(900, step=5)
    assert "pod-1" in live(both)


@pytest.mark.parametrize(("policy", "left"), [("Delete", []), ("Stop", ["pod-1", "pod-2"])])
async def test_the_old_one_and_the_new_one_are_ended_though_neither_can_be_read(
    both: World, policy: str, left: list[str]
) -> None:
    both.change(deletionPolicy=policy)
    await both.wait(5)
    both.pods.random_failure = lambda call: lost(acted=False) if call == "observe" else None
    both.delete()
    await both.wait(60)
    assert (both.exists(), live(both)) == (True, left)
    both.pods.random_failure = lambda _call: None
    await both.wait(330, step=5)
    assert not both.exists()


async def test_one_that_the_cloud_does_not_find_just_then_is_not_asked_about_without_a_pause(stuck: World) -> None:
    stuck.pods.misses = lambda subject: subject == "pod-1"
    asked = stuck.pods.count("delete")
    await stuck.wait(600, step=10)
    assert stuck.pods.count("delete") - asked <= 5
    assert ids(stuck) == ["pod-2", "pod-1"]
    stuck.pods.unendable.clear()
    stuck.pods.fail("delete", refused(NotFound))
    await stuck.wait(400, step=10)
    assert ids(stuck) == ["pod-2"]


async def test_a_value_is_replaced_in_time_though_the_former_one_cannot_be_revoked(showing: World) -> None:
    showing.apply()
    await showing.wait(8.2 * 3600, step=60)
    assert (kept(showing)[0], live(showing)) == ("pod-2", ["pod-1", "pod-2"])
    showing.pods.unendable.add("pod-1")
    await showing.wait(9 * 3600, step=60)
    assert (kept(showing), live(showing)) == (("pod-3", f"{CANARY}pod-3"), ["pod-1", "pod-2", "pod-3"])
    assert showing.message().endswith(BUSY)
    showing.pods.unendable.clear()
    await showing.wait(4 * 3600, step=60)
    assert (live(showing), showing.reason()) == (["pod-3"], "Running")


async def test_of_several_former_ones_each_is_asked_about_in_its_own_time(world: World) -> None:
    world.kind = KeptPods
    world.assemble()
    world.apply(updateStrategy={"type": "Recreate"})
    await world.wait(30)
    uses(world, 10, "pod-1", "pod-2", "pod-3")
    for number, image in enumerate(("second", "third", "fourth"), 2):
        world.change(image=image)
        await world.wait(60)
        assert world.status().id == f"pod-{number}"
    assert former(world) == ["pod-1", "pod-2", "pod-3"]
    world.pods.unendable |= {"pod-1", "pod-3"}
    uses(world, 11)
    await world.wait(400, step=5)
    assert (former(world), live(world)) == (["pod-1", "pod-3"], ["pod-1", "pod-3", "pod-4"])
    world.change(image="fifth")
    await world.wait(60)
    assert (world.status().id, live(world)) == ("pod-5", ["pod-1", "pod-3", "pod-5"])
    world.pods.unendable.clear()
    await world.wait(700, step=10)
    assert (world.reason(), former(world), live(world)) == ("Running", [], ["pod-5"])


async def test_what_somebody_else_ended_is_forgotten_at_once(stuck: World) -> None:
    becomes(stuck, "pod-1", "terminated")
    await stuck.wait(2)
    assert (stuck.reason(), ids(stuck)) == ("Running", ["pod-2"])


async def test_another_key_is_tried_at_once(stuck: World) -> None:
    await stuck.wait(600, step=10)
    asked = stuck.pods.count("delete")
    stuck.account.share()
    stuck.hint()
    await stuck.settle()
    assert stuck.pods.count("delete") == asked + 1
