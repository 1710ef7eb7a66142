"""A create that the cloud refuses: its intent is closed, status says why, and another follows in time."""

import pytest

from relay_client import BadRequest, CapacityExhausted, CloudError, Forbidden, HeldBack, PaymentRequired, RateLimited
from relay_operator.accounts.shortage import Shortage
from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.engine.queue import Priority
from tests.unit.engine.apiserver import Fault, Json
from tests.unit.flows.managed.cloudpods import Failure, refused, unauthorized
from tests.unit.flows.managed.world import NAMESPACE, World

REFUSALS: dict[str, tuple[CloudError, Reason, bool]] = {
    "no room": (CapacityExhausted("c", "full", code="NODE_AT_CAPACITY"), Reason.WAITING_FOR_CAPACITY, False),
    "too many requests": (RateLimited("c", "slow down", retry_after=7.0), Reason.RATE_LIMITED, False),
    "not allowed to": (Forbidden("c", "lacks pods:write"), Reason.ACCOUNT_FORBIDDEN, True),
    "malformed": (BadRequest("c", "image is not pullable"), Reason.SPEC_INVALID, True),
}


@pytest.mark.parametrize(("error", "reason", "stalled"), REFUSALS.values(), ids=REFUSALS)
async def test_a_rejected_create_closes_its_intent_and_says_why(
    world: World, error: CloudError, reason: Reason, stalled: bool
) -> None:
    world.pods.fail("create", refused(type(error), code=error.code, retry_after=error.retry_after))
    world.apply()
    await world.settle()
    status = world.status()
    assert (status.id, status.create_token, status.attempt) == (None, world.readable_intent().token, 1)
    assert (world.reason(), world.condition(ConditionType.STALLED) is not None) == (reason, stalled)
    assert status.next_attempt_time is not None


async def test_a_create_that_was_held_back_in_an_outage_is_made_again_and_not_searched_for(world: World) -> None:
    world.pods.fail("create", Failure(HeldBack("create_pod", "no complete answer within 60 s", retry_after=5)))
    world.apply()
    await world.settle()
    assert (world.reason(), world.status().create_token) == ("CloudUnavailable", world.readable_intent().token)
    await world.wait(10)
    assert (world.reason(), world.pods.count("find")) == ("Running", 0)


async def test_a_refusal_that_status_could_not_record_is_not_searched_for(world: World) -> None:
    """People write to the object meanwhile, and the intent stays open: a search would take ten minutes."""
    world.pods.fail("create", refused(RateLimited))
    world.server.faults.append(Fault(409, method="PATCH", plural="gpupods", status_write=True))
    world.apply()
    await world.wait(30)
    assert (world.reason(), world.pods.count("find"), len(world.pods.sent)) == ("Running", 0, 2)


async def test_after_the_largest_number_of_an_attempt_comes_the_first(world: World) -> None:
    """A larger one would make an intent that this operator itself could not read."""
    world.annotate(world.apply().name, paused="true")
    world.server.edit("gpupods", NAMESPACE, "train", {"status": {"attempt": 99_998}}, status=True)
    world.pods.fail("create", refused(BadRequest))
    world.annotate(paused=None)
    await world.wait(400)
    assert world.reason() == "Running"
    first, second = (sent.name for sent, _ in world.pods.sent)
    assert first.endswith("-99999")
    assert first == f"{second}-99999"
    assert world.readable_intent().attempt == world.status().attempt == 1


async def test_one_more_failure_than_status_can_count_keeps_nothing_from_being_written(world: World) -> None:
    world.annotate(world.apply().name, paused="true")
    counted: Json = {"failures": 2**31 - 1, "recoveries": 2**31 - 1}
    world.server.edit("gpupods", NAMESPACE, "train", {"status": counted}, status=True)
    world.pods.fail("create", refused(BadRequest))
    world.annotate(paused=None)
    await world.settle()
    assert (world.reason(), world.status().failures) == ("SpecInvalid", None)


async def test_the_attempt_after_a_rejected_one_has_a_name_of_its_own(world: World) -> None:
    world.pods.fail("create", refused(RateLimited))
    world.apply()
    await world.settle()
    first = world.readable_intent().name
    await world.wait(10)
    assert world.pods.created == [world.readable_intent().name]
    assert world.readable_intent().name == f"{first}-2"
    assert world.status().attempt == 2


async def test_retry_after_is_kept_to(world: World) -> None:
    world.pods.fail("create", refused(RateLimited, retry_after=40.0))
    world.apply()
    await world.wait(39)
    assert world.pods.count("create") == 1
    await world.wait(15)
    assert world.pods.count("create") == 2


async def test_rejections_are_repeated_ever_more_slowly(world: World) -> None:
    world.pods.fail("create", *[refused(RateLimited)] * 20)
    world.apply()
    await world.wait(120)
    assert 5 <= world.pods.count("create") <= 8


async def test_a_change_of_the_spec_does_not_wait_for_the_agreed_time(world: World) -> None:
    world.pods.fail("create", refused(BadRequest))
    world.apply()
    await world.wait(10)
    assert world.pods.count("create") == 1
    world.change(image="pytorch/pytorch:2")
    await world.settle()
    assert world.pods.count("create") == 2


async def test_no_room_for_one_model_moves_to_the_next_at_once_and_round_again_later(world: World) -> None:
    full = refused(CapacityExhausted, code="NODE_AT_CAPACITY")
    world.pods.fail("create", full, full, full)
    world.apply(gpu={"modelIds": ["h200", "h100"], "count": 1})
    await world.settle()
    assert [inputs.model_id for _, inputs in world.pods.sent] == ["h200", "h100"]
    capacity = world.condition(ConditionType.CAPACITY_AVAILABLE)
    assert capacity is not None
    assert "NODE_AT_CAPACITY" in capacity.message
    await world.wait(30)
    assert [inputs.model_id for _, inputs in world.pods.sent] == ["h200", "h100", "h200", "h100"]
    assert world.status().gpu_model_id == "h100"
    assert world.condition(ConditionType.CAPACITY_AVAILABLE) is None


async def test_only_lack_of_room_moves_to_the_next_model(world: World) -> None:
    full, slow = refused(CapacityExhausted, code="NODE_AT_CAPACITY"), refused(RateLimited)
    world.pods.fail("create", slow, slow, full, slow)
    world.apply(gpu={"modelIds": ["h200", "h100"], "count": 1})
    await world.wait(60)
    assert [inputs.model_id for _, inputs in world.pods.sent] == ["h200", "h200", "h200", "h100", "h100"]


async def test_another_spec_and_another_resource_begin_with_the_first_model(world: World) -> None:
    full = refused(CapacityExhausted, code="NODE_AT_CAPACITY")
    world.pods.fail("create", full, refused(RateLimited))
    world.apply(gpu={"modelIds": ["h200", "h100"], "count": 1}, recovery={"onTerminated": "Recreate"})
    await world.settle()
    world.change(gpu={"modelIds": ["b200", "h100"], "count": 1})
    world.pods.fail("create", full)
    await world.wait(60)
    world.pods.become("pod-1", "terminated")
    world.hint()
    await world.wait(60)
    assert [inputs.model_id for _, inputs in world.pods.sent] == ["h200", "h100", "b200", "h100", "b200"]


async def test_a_start_without_room_waits_although_the_spec_names_several_models(world: World) -> None:
    world.apply(gpu={"modelIds": ["h100", "h200"], "count": 1})
    await world.settle()
    world.pods.become("pod-1", "stopped")
    world.pods.fail("start", *[refused(CapacityExhausted, code="NODE_AT_CAPACITY")] * 5)
    world.hint()
    await world.settle()
    assert world.pods.count("start") == 1


async def test_a_key_that_is_refused_is_told_to_the_account(world: World) -> None:
    world.pods.fail("create", unauthorized())
    world.apply()
    await world.settle()
    assert world.account.refusals == [world.account.state]
    assert world.reason() == "AccountUnauthorized"


async def test_no_funds_are_waited_for(world: World) -> None:
    world.pods.fail("create", refused(PaymentRequired))
    world.apply()
    await world.wait(10)
    assert world.pods.count("create") == 1
    assert world.status().next_attempt_time is not None


async def test_funds_that_come_back_are_used_at_once_and_once(world: World) -> None:
    key = world.apply()
    world.pods.fail("create", refused(PaymentRequired))
    await world.wait(10)
    world.account.shortage.seen(-324, None, world.clock.seconds)
    world.queue.add(key, Priority.EVENT)
    await world.settle()
    assert world.pods.count("create") == 1
    world.pods.fail("create", refused(PaymentRequired))
    for called in world.account.shortage.seen(-300, None, world.clock.seconds):
        world.queue.add(called, Priority.CHANGE)
    await world.wait(10)
    assert (world.pods.count("create"), world.reason()) == (2, "WaitingForBudget")
    for called in world.account.shortage.seen(1_000, None, world.clock.seconds):
        world.queue.add(called, Priority.CHANGE)
    await world.settle()
    assert (world.pods.count("create"), world.status().id) == (3, "pod-1")


async def test_what_a_former_process_was_refused_for_want_of_funds_is_tried_once(world: World) -> None:
    """The funds may have come while no operator ran: nothing else tells of them."""
    for _ in range(2):
        world.pods.fail("create", refused(PaymentRequired))
    world.apply()
    await world.wait(10)
    world.account.shortage = Shortage(600.0)
    await world.restart()
    await world.wait(10)
    assert world.pods.count("create") == 2
