"""The create protocol: intent, one send, one record; and what each failure on the way leaves behind."""

import json
from collections.abc import Callable

import pytest

from relay_client import (
    BadRequest,
    CapacityExhausted,
    CloudError,
    Conflict,
    Forbidden,
    HeldBack,
    PaymentRequired,
    RateLimited,
)
from relay_operator.accounts.shortage import Shortage
from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.api.meta import FINALIZER, CreateIntent
from relay_operator.engine.account import AccountReady
from relay_operator.engine.intent import cloud_name
from relay_operator.engine.queue import Priority
from tests.unit.engine.apiserver import Call, Fault, Json, metadata_fault
from tests.unit.flows.managed.cloudpods import Failure, lost, refused, unauthorized
from tests.unit.flows.managed.world import NAMESPACE, World


def intent_of(world: World) -> CreateIntent:
    intent = world.intent()
    assert isinstance(intent, CreateIntent)
    return intent


async def test_a_create_writes_its_intent_then_sends_once_then_records_the_id(world: World) -> None:
    order: list[str] = []
    world.server.before = lambda call: order.append("status" if call.status_write else call.method)
    world.pods.on_call = order.append
    world.apply()
    await world.settle()
    assert order == ["PATCH", "create", "status"]
    assert (world.status().id, world.reason()) == ("pod-1", "Running")


async def test_the_intent_carries_the_finalizer_the_name_and_the_account(world: World) -> None:
    world.apply()
    await world.settle()
    obj, intent = world.obj(), intent_of(world)
    assert obj.metadata.finalizers == [FINALIZER]
    assert intent.name == cloud_name(NAMESPACE, "train", obj.metadata.uid, "c0ffe", 1) == world.pods.created[0]
    assert (intent.attempt, intent.account) == (1, "CloudAccount/default")
    assert intent.token == obj.status.create_token


async def test_create_to_ready_costs_three_writes(world: World) -> None:
    world.pods.born = "deploying"
    world.apply()
    await world.settle()
    world.pods.become("pod-1", "running")
    world.hint()
    await world.settle()
    await world.wait(1000)
    assert world.server.writes == ["PATCH gpupods", "PATCH gpupods/status", "PATCH gpupods/status"]


async def test_nothing_is_created_before_its_webhooks_would_be_heard_or_it_was_waited_long_enough(
    world: World,
) -> None:
    world.account.deaf_until = 20.0
    world.apply()
    await world.wait(19)
    ready = world.condition()
    assert ready is not None
    assert (ready.reason, "is being subscribed" in ready.message) == ("WaitingForAccount", True)
    assert (world.pods.calls, world.intent()) == ([], None)
    await world.wait(1)
    assert (world.status().id, world.reason()) == ("pod-1", "Running")


async def test_what_exists_is_looked_after_although_webhooks_would_not_be_heard(world: World) -> None:
    world.apply()
    await world.settle()
    world.account.deaf_until = 1000.0
    world.change(powerState="Stopped")
    await world.wait(10)
    assert world.reason() == "Stopped"


@pytest.mark.parametrize("status", [409, 500, 422])
async def test_nothing_is_sent_when_the_intent_is_not_taken(world: World, status: int) -> None:
    world.server.faults.append(metadata_fault(status))
    world.apply()
    await world.settle()
    assert world.pods.calls == []
    await world.wait(10)
    assert world.pods.created == [intent_of(world).name]


async def test_somebody_elses_change_between_reading_and_the_intent_stops_the_create(world: World) -> None:
    def label(_: Call) -> None:
        world.server.before = lambda _: None
        labels: Json = {"metadata": {"labels": {"a": "b"}}}
        world.server.edit("gpupods", NAMESPACE, "train", labels)

    world.server.before = label
    world.apply()
    await world.settle()
    assert (world.server.answers, world.pods.calls) == ([409], [])
    await world.wait(10)
    assert world.pods.count("create") == 1


@pytest.mark.parametrize("status", [0, 500], ids=["no answer", "500"])
async def test_an_intent_whose_answer_is_lost_is_read_again_and_sent(world: World, status: int) -> None:
    world.pods.listable = False
    world.server.faults.append(metadata_fault(status, acted=True))
    world.apply()
    await world.settle()
    assert (world.pods.created, world.status().id) == ([intent_of(world).name], "pod-1")


def read_fault() -> Fault:
    return Fault(500, method="GET", plural="gpupods")


async def test_an_intent_that_cannot_be_read_again_is_closed_since_nothing_was_sent(world: World) -> None:
    world.pods.listable = False
    world.server.faults += [metadata_fault(500, acted=True), read_fault()]
    world.apply()
    await world.settle()
    assert world.pods.calls == []
    await world.wait(10)
    assert (world.pods.created, world.reason()) == ([intent_of(world).name], "Running")
    assert intent_of(world).attempt == 2


async def test_an_intent_that_nobody_remembers_not_to_have_sent_stays_open(world: World) -> None:
    """The process ends before it knows: the next one cannot tell whether this one had sent it."""
    world.pods.listable = False
    world.server.faults += [metadata_fault(500, acted=True), read_fault()]
    world.apply()
    await world.one_pass()
    await world.restart()
    await world.wait(200)
    assert (world.pods.calls.count("create"), world.reason()) == (0, "CreateOutcomeUnknown")


async def test_an_intent_that_lands_late_is_closed_and_not_searched_for(world: World) -> None:
    world.pods.listable = False
    late: list[Json] = []

    def hold(call: Call) -> None:
        if call.method == "PATCH" and not late:
            late.append(json.loads(call.body))

    world.server.before = hold
    world.server.faults += [metadata_fault(500), read_fault()]
    world.apply()
    await world.one_pass()
    world.server.edit("gpupods", NAMESPACE, "train", late[0])
    await world.wait(10)
    assert (len(world.pods.live), world.pods.count("create"), world.reason()) == (1, 1, "Running")


def unprotect(world: World) -> None:
    world.server.edit("gpupods", NAMESPACE, "train", {"metadata": {"finalizers": []}})


MEANWHILE: dict[str, Callable[[World], None]] = {
    "the spec has changed": lambda world: world.change(image="another"),
    "it is being deleted": lambda world: world.delete(),
    "the finalizer is gone": unprotect,
}


@pytest.mark.parametrize("meanwhile", MEANWHILE.values(), ids=MEANWHILE)
async def test_an_intent_read_again_is_not_sent_where(world: World, meanwhile: Callable[[World], None]) -> None:
    world.pods.listable = False

    def interfere(call: Call) -> None:
        if call.method == "GET":
            world.server.before = lambda _: None
            meanwhile(world)

    world.server.before = interfere
    world.server.faults.append(metadata_fault(500, acted=True))
    world.apply()
    await world.one_pass()
    assert world.pods.calls == []
    await world.wait(40)
    assert len(world.pods.live) == (1 if world.exists() else 0)
    assert world.pods.count("create") <= 1


async def test_a_create_that_was_sent_after_a_lost_intent_write_is_never_taken_for_unsent(world: World) -> None:
    world.pods.listable = False
    world.server.faults.append(metadata_fault(500, acted=True))
    world.pods.fail("create", lost(acted=True))
    world.apply()
    await world.wait(300)
    assert (world.pods.count("create"), world.reason()) == (1, "CreateOutcomeUnknown")


async def test_an_intent_is_not_closed_where_another_wrote_meanwhile(world: World) -> None:
    """Another replica may have sent it, and told so."""
    world.server.faults += [metadata_fault(500, acted=True), read_fault()]
    world.apply()
    await world.one_pass()

    def write(call: Call) -> None:
        if call.status_write:
            world.server.before = lambda _: None
            world.server.edit("gpupods", NAMESPACE, "train", {"metadata": {"labels": {"a": "b"}}})

    world.server.before = write
    before = len(world.server.answers)
    await world.wait(10)
    assert 409 in world.server.answers[before:]
    assert len(world.pods.live) == 1


async def test_a_replica_that_leads_no_longer_sends_nothing(world: World) -> None:
    world.leading = False
    world.apply()
    await world.settle()
    assert world.pods.calls == []
    assert world.status().id is None


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
    assert (status.id, status.create_token, status.attempt) == (None, intent_of(world).token, 1)
    assert (world.reason(), world.condition(ConditionType.STALLED) is not None) == (reason, stalled)
    assert status.next_attempt_time is not None


async def test_a_create_that_was_held_back_in_an_outage_is_made_again_and_not_searched_for(world: World) -> None:
    world.pods.fail("create", Failure(HeldBack("create_pod", "no complete answer within 60 s", retry_after=5)))
    world.apply()
    await world.settle()
    assert (world.reason(), world.status().create_token) == ("CloudUnavailable", intent_of(world).token)
    await world.wait(10)
    assert (world.reason(), world.pods.count("find")) == ("Running", 0)


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
    assert intent_of(world).attempt == world.status().attempt == 1


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
    first = intent_of(world).name
    await world.wait(10)
    assert world.pods.created == [intent_of(world).name]
    assert intent_of(world).name == f"{first}-2"
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
    world.account.shortage.seen(-324)
    world.queue.add(key, Priority.EVENT)
    await world.settle()
    assert world.pods.count("create") == 1
    world.pods.fail("create", refused(PaymentRequired))
    for called in world.account.shortage.seen(-300):
        world.queue.add(called, Priority.CHANGE)
    await world.wait(10)
    assert (world.pods.count("create"), world.reason()) == (2, "WaitingForBudget")
    for called in world.account.shortage.seen(1_000):
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


@pytest.mark.parametrize("acted", [True, False])
async def test_create_is_not_repeated_when_the_reply_is_lost(world: World, acted: bool) -> None:
    world.pods.fail("create", lost(acted=acted))
    world.apply()
    await world.settle()
    await world.wait(20)
    assert world.pods.count("create") == 1
    await world.wait(700)
    assert len(world.pods.created) == 1
    assert world.status().id == "pod-1"
    assert world.pods.count("create") == (1 if acted else 2)


async def test_a_name_clash_is_looked_up_since_the_create_may_have_landed(world: World) -> None:
    world.pods.fail("create", refused(Conflict))
    world.apply()
    await world.settle()
    assert world.status().create_token is None
    assert world.pods.count("find") == 1


async def test_what_earlier_lists_lacked_does_not_make_the_next_attempt_absent(world: World) -> None:
    """The list lags: the second create landed, and may not be sent again because of the first."""
    world.pods.fail("create", lost(acted=False), lost(acted=True))
    world.pods.hidden.add("pod-1")
    world.apply()
    while world.pods.count("create") < 2:
        await world.wait(1)
    await world.wait(50)
    world.pods.hidden.clear()
    await world.wait(300)
    assert len(world.pods.created) == 1
    assert world.status().id == "pod-1"


@pytest.mark.parametrize("born", ["running", "deploying"])
async def test_a_webhook_that_came_before_the_answer_is_looked_after(world: World, born: str) -> None:
    world.pods.born = born

    def webhook(call: str) -> None:
        if call == "create":
            account = world.account.state
            assert isinstance(account, AccountReady)
            account.unclaimed.add("pod-1")
            world.pods.become("pod-1", "running")

    world.pods.on_call = webhook
    world.apply()
    await world.settle()
    assert world.reason() == "Running"


async def test_an_object_that_cannot_be_read_is_left_alone_without_a_loop(world: World) -> None:
    world.apply()
    world.change(image=7)
    await world.wait(100)
    assert (world.pods.calls, world.server.writes) == ([], ["PATCH gpupods/status"])
    assert [each.outcome for each in world.passes] == ["Stall"]
