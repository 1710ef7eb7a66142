"""Another takes the place of what ends or has lost its value, and the one before lives on until it ends."""

import pytest
from pydantic import JsonValue

from relay_client import Forbidden
from relay_operator.api.conditions import Reason
from relay_operator.api.workload import MAX_FORMER
from relay_operator.engine.account import AccountWaiting
from relay_operator.flows.managed.former import STUCK
from relay_operator.flows.managed.shown_once import Life
from tests.unit.engine.apiserver import Fault
from tests.unit.flows.managed.cloudpods import lost, refused
from tests.unit.flows.managed.former import uses
from tests.unit.flows.managed.shown_once import CANARY, HOUR, SECRET, PodsWithAValue, RotatingPod, kept, put_secret
from tests.unit.flows.managed.world import NAMESPACE, World


def rows(world: World) -> list[str]:
    """Ids of those before, as status tells."""
    told = RotatingPod.model_validate(world.raw()).status.former
    return [each.id for each in told or ()]


def alive(world: World) -> list[str]:
    return [record.id for record in world.pods.live]


async def aged(world: World, hours: float) -> None:
    """A resource that is so old."""
    world.apply()
    await world.wait(10)
    await world.wait(hours * 3600 - 10, step=60)


def is_settled(world: World) -> None:
    """Nothing is left of the one before."""
    ready = world.condition()
    assert ready is not None
    assert (ready.status, rows(world)) == ("True", [])


async def test_another_takes_its_place_in_time_and_the_one_before_lives_on_until_it_ends(showing: World) -> None:
    await aged(showing, 7.9)
    assert (alive(showing), kept(showing)[0]) == (["pod-1"], "pod-1")
    await showing.wait(900, step=60)
    assert (showing.reason(), alive(showing)) == ("Running", ["pod-1", "pod-2"])
    assert kept(showing) == ("pod-2", f"{CANARY}pod-2")
    assert (showing.status().id, rows(showing)) == ("pod-2", ["pod-1"])
    await showing.wait(2 * 3600, step=60)
    assert (alive(showing), showing.status().id) == (["pod-2"], "pod-2")
    is_settled(showing)
    assert showing.pods.count("delete") == 1


async def test_a_secret_that_somebody_deleted_is_made_again_with_another_value(showing: World) -> None:
    await aged(showing, 1)
    showing.server.vanish("secrets", NAMESPACE, SECRET)
    await showing.wait(400)
    assert (showing.reason(), kept(showing), rows(showing)) == ("Running", ("pod-2", f"{CANARY}pod-2"), ["pod-1"])
    showing.server.vanish("secrets", NAMESPACE, SECRET)
    await showing.wait(400)
    assert (kept(showing)[0], rows(showing), alive(showing)) == ("pod-3", ["pod-2"], ["pod-2", "pod-3"])


async def test_without_an_overlap_the_one_before_is_ended_once_the_other_is_in_the_secret(showing: World) -> None:
    assert isinstance(showing.resource, PodsWithAValue)
    showing.resource.lives = Life()
    await aged(showing, 0.1)
    showing.server.vanish("secrets", NAMESPACE, SECRET)
    await showing.wait(400)
    assert (alive(showing), kept(showing)[0]) == (["pod-2"], "pod-2")
    is_settled(showing)
    showing.delete()
    await showing.wait(20)
    assert (showing.exists(), alive(showing)) == (False, [])


async def test_a_secret_that_is_another_s_by_now_is_told_and_nothing_is_made(showing: World) -> None:
    await aged(showing, 1)
    showing.server.vanish("secrets", NAMESPACE, SECRET)
    put_secret(showing, "somebody")
    await showing.wait(400)
    assert (showing.reason(), alive(showing)) == ("SecretTaken", ["pod-1"])


async def test_what_has_ended_and_nobody_asked_another_for_is_told(showing: World) -> None:
    showing.apply()
    await showing.wait(10)
    assert isinstance(showing.resource, PodsWithAValue)
    showing.resource.lives = Life(showing.clock.wall() + HOUR, overlap_field="renewBeforeSeconds")
    showing.annotate(reconcile_at="now")
    await showing.wait(3000, step=60)
    assert showing.reason() == "Running"
    await showing.wait(1000, step=60)
    assert (showing.reason(), alive(showing)) == ("Expired", ["pod-1"])
    assert showing.message().endswith("delete its Secret to get another, and set renewBeforeSeconds")
    showing.server.vanish("secrets", NAMESPACE, SECRET)
    await showing.wait(400)
    assert kept(showing)[0] == "pod-2"


@pytest.mark.parametrize("why", ["lost", "due"])
async def test_nothing_is_replaced_while_status_can_hold_no_more_former_ones(showing: World, why: str) -> None:
    await aged(showing, 1 if why == "lost" else 7.9)
    ids = [f"old-{number}" for number in range(MAX_FORMER)]
    told: list[JsonValue] = [{"id": each, "name": each} for each in ids]
    showing.server.edit("gpupods", NAMESPACE, "train", {"status": {"former": told}}, status=True)
    uses(showing, 10, *ids[1:])
    showing.pods.unendable.add("old-0")
    if why == "lost":
        showing.server.vanish("secrets", NAMESPACE, SECRET)
    await showing.wait(900, step=10)
    assert showing.stalled() == f"Conflict: {STUCK}; the former one, old-0, cannot be ended: it is busy"
    assert (alive(showing), rows(showing)) == (["pod-1"], ids)
    showing.pods.unendable.clear()
    await showing.wait(900, step=10)
    assert (kept(showing), alive(showing)) == (("pod-2", f"{CANARY}pod-2"), ["pod-1", "pod-2"])
    assert rows(showing) == [*ids[1:], "pod-1"]


async def test_a_cloud_whose_clock_is_wrong_gets_no_more_than_two_in_the_time_of_one(showing: World) -> None:
    assert isinstance(showing.resource, PodsWithAValue)
    showing.resource.lives = Life(showing.clock.wall(), HOUR, HOUR)
    await aged(showing, 5.5)
    assert len(showing.pods.created) == 6


async def test_another_spec_makes_another_beside_it(showing: World) -> None:
    await aged(showing, 1)
    showing.change(image="another")
    await showing.wait(10)
    assert (showing.reason(), alive(showing)) == ("ImmutableFieldChanged", ["pod-1"])
    showing.change(updateStrategy={"type": "Recreate"})
    await showing.wait(10)
    assert (showing.reason(), kept(showing)[0], alive(showing)) == ("Running", "pod-2", ["pod-1", "pod-2"])


async def test_a_rotation_whose_answer_is_lost_leaves_one_beside_the_one_before(showing: World) -> None:
    await aged(showing, 7.9)
    showing.pods.fail("create", lost(acted=True))
    await showing.wait(900, step=10)
    assert (showing.reason(), alive(showing)) == ("Running", ["pod-1", "pod-3"])
    assert (kept(showing), rows(showing)) == (("pod-3", f"{CANARY}pod-3"), ["pod-1"])


@pytest.mark.parametrize("status_write", [True, False], ids=["recorded", "made"])
async def test_a_process_that_dies_in_the_midst_is_followed_by_one_that_goes_on(
    showing: World, *, status_write: bool
) -> None:
    await aged(showing, 7.9)
    fault = Fault(500, method="PATCH", plural="gpupods", status_write=status_write, times=1000)
    showing.server.faults.append(fault)
    await showing.wait(900, step=60)
    showing.server.faults.clear()
    await showing.restart()
    await showing.wait(60)
    assert (showing.reason(), alive(showing), rows(showing)) == ("Running", ["pod-1", "pod-2"], ["pod-1"])
    assert kept(showing) == ("pod-2", f"{CANARY}pod-2")


async def test_both_are_ended_with_the_object(showing: World) -> None:
    await aged(showing, 8.2)
    assert alive(showing) == ["pod-1", "pod-2"]
    showing.delete()
    await showing.wait(20)
    assert (showing.exists(), alive(showing)) == (False, [])


async def test_nothing_is_left_of_a_rotation_that_the_end_of_the_object_meets(showing: World) -> None:
    await aged(showing, 7.9)
    showing.pods.fail("create", *[lost(acted=False)] * 3)
    await showing.wait(900, step=60)
    assert (showing.status().id, rows(showing)) == (None, ["pod-1"])
    state = showing.account.state
    showing.account.state = AccountWaiting(Reason.ACCOUNT_MISSING, "none")
    showing.delete()
    await showing.wait(60)
    assert (showing.exists(), alive(showing)) == (True, ["pod-1"])
    showing.account.state = state
    showing.annotate(reconcile_at="now")
    await showing.wait(2000, step=10)
    assert (showing.exists(), alive(showing)) == (False, [])


async def test_both_are_kept_and_written_down_where_people_ask_for_that(showing: World) -> None:
    await aged(showing, 8.2)
    showing.change(deletionPolicy="Orphan")
    showing.delete()
    await showing.wait(20)
    assert (showing.exists(), alive(showing)) == (False, ["pod-1", "pod-2"])
    assert {name for name in ("pod-1", "pod-2") if name in str(showing.left_behind())} == {"pod-1", "pod-2"}


async def test_what_was_ended_by_another_hand_is_forgotten_and_what_has_another_name_is_left(showing: World) -> None:
    await aged(showing, 8.2)
    showing.pods.become("pod-1", "terminated")
    await showing.wait(2 * 3600, step=60)
    assert (rows(showing), showing.pods.count("delete")) == ([], 0)


async def test_what_is_refused_is_tried_again_and_what_the_cloud_does_not_find_is_forgotten(showing: World) -> None:
    await aged(showing, 8.2)
    showing.pods.fail("delete", refused(Forbidden))
    del showing.pods.records["pod-1"]
    await showing.wait(2 * 3600, step=60)
    assert (rows(showing), showing.reason()) == ([], "Running")
