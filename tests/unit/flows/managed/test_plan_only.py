"""The annotation `plan-only`: what would be done is told, with its price and what would be lost, and is not done."""

from collections.abc import Mapping

import orjson
import pytest
from pydantic import JsonValue

from relay_client import CapacityExhausted, CloudUnavailable
from relay_operator.api.cloudaccount import AccountBudget
from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.api.meta import PLAN_ONLY, rfc3339
from relay_operator.budgets.prices import Prices
from relay_operator.engine.account import AccountRefused
from relay_operator.engine.entry import uid_of
from relay_operator.engine.flow import Turn
from relay_operator.engine.queue import Priority
from tests.unit.flows.managed.cloudpods import lost, refused
from tests.unit.flows.managed.money import H100, TWO, account, committed, limited
from tests.unit.flows.managed.world import World

ONLY: dict[str, JsonValue] = {PLAN_ONLY: "true"}


def planned(world: World, name: str = "train") -> Mapping[str, JsonValue] | None:
    """`status.plan`, as people read it."""
    plan = world.status(name).plan
    return None if plan is None else plan.model_dump(mode="json", by_alias=True, exclude_none=True)


async def made(world: World, **spec: JsonValue) -> str:
    """A pod that runs, then only plans; answers its id."""
    world.apply("train", gpu=H100, **spec)
    await world.wait(10)
    assert world.reason() == "Running"
    world.annotate(plan_only="true")
    await world.wait(10)
    return world.status().id or ""


async def test_a_create_is_told_with_its_price_and_not_sent_until_the_annotation_goes(world: World) -> None:
    world.apply(gpu=TWO, annotations=ONLY)
    await world.wait(1000)
    assert (world.pods.calls, world.intent(), world.obj().metadata.finalizers) == ([], None, [])
    plan = {"action": "Create", "reason": "nothing of it is in the cloud", "pricePerHourCents": 400}
    assert planned(world) == plan
    assert (world.reason(), world.condition(ConditionType.RECONCILING) is not None) == ("PlanOnly", True)
    assert world.message() == (
        "gpurelay.dev/plan-only holds it back: it would be created: nothing of it is in the cloud, at 400 cents/h "
        "from then on"
    )
    world.annotate(plan_only=None)
    await world.wait(10)
    assert (world.reason(), planned(world), len(world.pods.live)) == ("Running", None, 1)


async def test_a_preview_says_what_status_would_and_writes_nothing(world: World) -> None:
    key = world.apply(gpu=TWO, annotations=ONLY)
    raw = world.raw()
    turn = Turn(key, uid_of(raw), world.clock.wall(), Priority.CHANGE)
    preview = await world.flow.preview(turn, orjson.dumps(raw))
    assert (world.raw(), world.pods.calls) == (raw, [])
    await world.wait(10)
    assert preview == world.status().plan


async def test_what_was_never_created_goes_at_once(world: World) -> None:
    world.apply(annotations=ONLY)
    await world.wait(10)
    world.delete()
    await world.wait(10)
    assert (world.exists(), world.pods.calls) == (False, [])


async def test_nothing_to_do_is_a_plan_as_well(world: World) -> None:
    await made(world)
    keep = {"action": "None", "reason": world.message(), "pricePerHourCents": 200}
    assert (world.reason(), planned(world)) == ("Running", keep)


async def test_a_stop_and_a_start(world: World) -> None:
    cloud_id = await made(world)
    world.change(powerState="Stopped")
    await world.wait(400)
    lost = f"what runs in {cloud_id} is interrupted; its volume stays"
    stop = {"action": "Stop", "reason": "stop", "pricePerHourCents": 0, "loses": [lost]}
    assert (planned(world), world.pods.count("stop"), world.status().state) == (stop, 0, "running")
    world.annotate(plan_only=None)
    await world.wait(10)
    world.annotate(plan_only="true")
    await world.wait(10)
    assert (world.reason(), (planned(world) or {}).get("pricePerHourCents")) == ("Stopped", 0)
    world.change(powerState="Running")
    await world.wait(400)
    assert planned(world) == {"action": "Start", "reason": "start", "pricePerHourCents": 200}
    assert world.pods.count("start") == 0


async def test_a_restart(world: World) -> None:
    cloud_id = await made(world)
    world.annotate(restarted_at="now")
    await world.wait(10)
    lost = f"what runs in {cloud_id} is interrupted; its volume stays"
    assert planned(world) == {"action": "Update", "reason": "restart", "pricePerHourCents": 200, "loses": [lost]}


async def test_a_change_in_place_of_what_is_stopped_costs_nothing(world: World) -> None:
    world.apply(gpu=H100, powerState="Stopped")
    await world.wait(10)
    world.annotate(plan_only="true")
    world.change(public=True)
    await world.wait(10)
    plan = planned(world)
    assert plan is not None
    assert (plan["action"], plan["pricePerHourCents"], "loses" in plan) == ("Update", 0, False)


async def test_what_would_be_recreated_is_told_with_the_price_of_the_next_and_its_losses(world: World) -> None:
    cloud_id = await made(world, updateStrategy={"type": "Recreate"})
    world.change(gpu=TWO)
    await world.wait(1000)
    plan = planned(world)
    assert plan is not None
    assert (plan["action"], plan["pricePerHourCents"]) == ("Recreate", 400)
    assert plan["loses"] == [f"{cloud_id} is ended, and its volume with it"]
    assert (world.pods.count("delete"), world.status().replacing) == (0, None)
    world.annotate(plan_only=None)
    await world.wait(60)
    assert (world.reason(), world.status().gpu_count, len(world.pods.live)) == ("Running", 2, 1)


async def test_a_recreation_that_was_begun_goes_on_as_a_plan(world: World) -> None:
    cloud_id = await made(world, recovery={"onTerminated": "Recreate"})
    world.pods.become(cloud_id, "terminated")
    world.hint()
    await world.wait(400)
    plan = planned(world)
    assert plan is not None
    assert (plan["action"], plan["pricePerHourCents"], "loses" in plan) == ("Recreate", 200, False)
    assert len(world.pods.created) == 1


async def test_a_failed_one_that_would_be_restarted(world: World) -> None:
    cloud_id = await made(world, recovery={"onFailed": "Restart"})
    world.pods.become(cloud_id, "failed")
    world.hint()
    await world.wait(400)
    plan = planned(world)
    assert plan is not None
    assert (plan["action"], plan["reason"], world.pods.count("start")) == ("Start", "recovery: start", 0)


async def test_a_failed_one_that_is_left_costs_nothing_then_as_now(priced: World) -> None:
    cloud_id = await made(priced)
    priced.pods.on_call = lambda _call: None
    priced.pods.become(cloud_id, "failed", price_per_hour_cents=200)
    priced.hint()
    await priced.wait(10)
    assert planned(priced) == {"action": "None", "reason": priced.message(), "pricePerHourCents": 0}


@pytest.mark.parametrize("policy", ["Delete", "Stop", "Orphan"])
async def test_a_deletion_waits_and_says_so(world: World, policy: str) -> None:
    cloud_id = await made(world, deletionPolicy=policy)
    world.delete()
    await world.wait(1000)
    reasons = {"Orphan": f"the object goes, and {cloud_id} stays in the cloud, as its deletionPolicy says"}
    lost = {
        "Delete": [f"{cloud_id} is ended, and its volume with it"],
        "Stop": [f"what runs in {cloud_id} is interrupted; its volume stays"],
    }
    plan = planned(world)
    assert plan is not None
    assert plan["action"] == ("Stop" if policy == "Stop" else "Delete")
    assert (plan["reason"], plan.get("loses")) == (reasons.get(policy, "the object is being deleted"), lost.get(policy))
    assert (world.reason(), world.exists(), len(world.pods.live)) == ("PlanOnly", True, 1)
    world.annotate(plan_only=None)
    await world.wait(60)
    assert not world.exists()


async def test_abandoning_is_an_answer_to_that(world: World) -> None:
    await made(world)
    world.delete()
    world.annotate(abandon="true")
    await world.wait(10)
    assert (world.exists(), len(world.pods.live)) == (False, 1)


async def test_what_vanishes_while_it_only_plans_is_ended(world: World) -> None:
    await made(world)
    world.vanish()
    await world.wait(60)
    assert world.pods.live == []


async def test_what_was_sent_before_is_found_and_not_sent_again(world: World) -> None:
    world.pods.fail("create", lost(acted=True))
    world.apply(gpu=H100)
    await world.one_pass()
    world.annotate(plan_only="true")
    await world.wait(120)
    assert (world.reason(), len(world.pods.created)) == ("Running", 1)


async def test_a_budget_without_room_is_told_and_no_place_in_its_line_is_taken(world: World) -> None:
    limited(world, AccountBudget(max_burn_per_hour_cents=399))
    world.apply(gpu=TWO, annotations=ONLY)
    await world.wait(10)
    assert (world.reason(), planned(world)) == (
        "WaitingForBudget",
        {"action": "None", "reason": world.message(), "pricePerHourCents": 0},
    )
    assert "1 too much" in world.message()
    world.apply("younger", gpu=H100)
    await world.wait(10)
    assert world.reason("younger") == "Running"


async def test_a_plan_takes_no_room_from_others(world: World) -> None:
    limited(world, AccountBudget(max_burn_per_hour_cents=200))
    world.apply(gpu=H100, annotations=ONLY)
    await world.wait(10)
    assert (planned(world) or {})["action"] == "Create"
    world.apply("other", gpu=H100)
    await world.wait(10)
    assert (world.reason("other"), committed(world).cents, account(world).name) == ("Running", 200, "default")


async def test_plans_do_not_count_for_each_other_and_then_the_budget_decides(world: World) -> None:
    limited(world, AccountBudget(max_burn_per_hour_cents=200))
    for name in ("train", "other"):
        world.apply(name, gpu=H100, annotations=ONLY)
    await world.wait(10)
    assert [(planned(world, name) or {})["action"] for name in ("train", "other")] == ["Create", "Create"]
    for name in ("train", "other"):
        world.annotate(name, plan_only=None)
    await world.wait(10)
    assert [world.reason(name) for name in ("train", "other")] == ["Running", "WaitingForBudget"]


async def test_its_own_limit_is_told(world: World) -> None:
    world.apply(gpu=TWO, budget={"maxPricePerHourCents": 399}, annotations=ONLY)
    await world.wait(10)
    assert (world.reason(), (planned(world) or {})["action"]) == ("BudgetExceeded", "None")


async def test_without_prices_a_plan_has_none(world: World) -> None:
    world.pricing.failure = CloudUnavailable("get_pricing", "no answer")
    world.apply(gpu=TWO, annotations=ONLY)
    await world.wait(10)
    assert planned(world) == {"action": "Create", "reason": "nothing of it is in the cloud"}
    world.pricing.failure, world.pricing.prices = None, Prices({}, {})
    await world.wait(400)
    assert planned(world) == {"action": "Create", "reason": "nothing of it is in the cloud"}


async def test_room_that_comes_calls_what_is_only_planned(world: World) -> None:
    limited(world, AccountBudget(max_burn_per_hour_cents=400))
    world.apply("other", gpu=H100)
    await world.wait(10)
    world.pods.become(world.status("other").id or "", "running", price_per_hour_cents=200)
    world.hint("other")
    world.apply(gpu=TWO, annotations=ONLY)
    await world.wait(10)
    assert (world.reason(), (planned(world) or {})["action"]) == ("WaitingForBudget", "None")
    world.delete("other")
    await world.wait(60)
    assert (world.reason(), (planned(world) or {})["action"]) == ("PlanOnly", "Create")


async def test_a_recreation_tells_that_the_budget_has_no_room_for_the_next_until_it_has(world: World) -> None:
    limited(world, AccountBudget(max_burn_per_hour_cents=500))
    world.apply("other", gpu=H100)
    cloud_id = await made(world, updateStrategy={"type": "Recreate"})
    world.pods.become(world.status("other").id or "", "running", price_per_hour_cents=200)
    world.hint("other")
    world.change(gpu=TWO)
    await world.wait(10)
    ended, reason = f"{cloud_id} is ended, and its volume with it", "gpu.count: asked 2, has 1"
    refused = "it costs 400 cents/h, and of the 500 cents/h that the account may pay, 200 are taken: 100 too much"
    plan = {"action": "Recreate", "reason": reason, "pricePerHourCents": 0}
    assert planned(world) == plan | {"loses": [ended, f"nothing takes its place yet: {refused}"]}
    assert world.message().endswith(refused)
    world.delete("other")
    await world.wait(60)
    assert planned(world) == plan | {"pricePerHourCents": 400, "loses": [ended]}


async def test_what_its_own_limit_or_an_unknown_price_holds_back_is_not_planned(world: World) -> None:
    cloud_id = await made(world, updateStrategy={"type": "Recreate"}, budget={"maxPricePerHourCents": 399})
    world.change(gpu=TWO)
    await world.wait(10)
    plan = planned(world)
    assert plan is not None
    assert (plan["action"], plan.get("loses")) == ("None", None)
    held_back = f"budget.maxPricePerHourCents is 399: 1 too much; the resource {cloud_id} is not ended before that"
    assert held_back in str(plan["reason"])
    world.pricing.failure = CloudUnavailable("get_pricing", "no answer")
    world.annotate(reconcile_at="now")
    await world.wait(10)
    assert "the cloud's prices cannot be read" in str((planned(world) or {})["reason"])


async def test_a_recreation_that_was_begun_tells_what_the_next_one_waits_for(world: World) -> None:
    cloud_id = await made(world, updateStrategy={"type": "Recreate"})
    world.change(gpu=TWO)
    world.annotate(plan_only=None)
    await world.one_pass()
    assert world.status().replacing
    world.change(budget={"maxPricePerHourCents": 399})
    world.annotate(plan_only="true")
    del world.pods.records[cloud_id]
    world.hint()
    await world.wait(400)
    plan = planned(world)
    assert plan is not None
    assert (plan["action"], plan["pricePerHourCents"]) == ("Recreate", 0)
    assert str(plan.get("loses")).startswith("['nothing takes its place yet: it costs 400 cents/h")


async def test_until_the_attempt_that_is_agreed_nothing_is_planned(world: World) -> None:
    world.pods.fail("create", *[refused(CapacityExhausted)] * 20)
    world.apply(gpu=H100)
    await world.wait(60)
    before, tried = world.status(), world.pods.count("create")
    world.annotate(plan_only="true")
    await world.settle()
    assert before.next_attempt_time is not None
    reason = f"nothing is tried before {rfc3339(before.next_attempt_time)}: {world.message()}"
    assert planned(world) == {"action": "None", "reason": reason, "pricePerHourCents": 0}
    assert world.status().model_copy(update={"plan": None}) == before
    world.annotate(plan_only=None)
    await world.settle()
    assert world.status() == before
    world.annotate(plan_only="true")
    await world.wait(400)
    assert ((planned(world) or {})["action"], world.pods.count("create")) == ("Create", tried)


async def test_what_is_stopped_costs_nothing_while_it_cannot_be_looked_at(world: World) -> None:
    world.apply(gpu=H100, powerState="Stopped")
    await world.wait(10)
    world.account.state = AccountRefused(Reason.ACCOUNT_UNAUTHORIZED, "the key is refused")
    world.annotate(plan_only="true")
    await world.wait(10)
    assert planned(world) == {"action": "None", "reason": "the key is refused", "pricePerHourCents": 0}


async def test_a_preview_says_until_when_nothing_is_tried(world: World) -> None:
    world.pods.fail("create", *[refused(CapacityExhausted)] * 20)
    key = world.apply(gpu=H100)
    await world.wait(60)
    world.annotate(plan_only="true")
    preview = await world.flow.preview(
        Turn(key, uid_of(world.raw()), world.clock.wall(), Priority.CHANGE), orjson.dumps(world.raw())
    )
    await world.settle()
    assert preview == world.status().plan


async def test_what_is_agreed_outlives_a_plan(world: World) -> None:
    world.apply(gpu=H100, powerState="Stopped", recovery={"onTerminated": "Recreate"})
    await world.wait(10)
    world.pods.fail("start", *[lost(acted=False)] * 20)
    world.change(powerState="Running")
    await world.wait(60)
    agreed, tried = world.status().next_attempt_time, world.pods.count("start")
    world.annotate(plan_only="true")
    world.pods.become(world.status().id or "", "terminated")
    world.hint()
    await world.settle()
    assert ((planned(world) or {})["action"], world.status().next_attempt_time) == ("Recreate", agreed)
    await world.wait(400)
    assert (world.status().next_attempt_time, world.pods.count("start")) == (None, tried)


async def test_a_plan_of_nothing_has_the_price_as_it_is_now(world: World) -> None:
    cloud_id = await made(world)
    for cents in (200, 300):
        world.pods.become(cloud_id, "running", price_per_hour_cents=cents)
        world.hint()
        await world.one_pass()
        assert planned(world) == {"action": "None", "reason": world.message(), "pricePerHourCents": cents}
