"""When status says that the cloud will delete a resource, and when it does not (section 3)."""

import pytest

from relay_client import Conflict, PaymentRequired
from relay_operator.api.cloudaccount import AccountBudget
from relay_operator.api.conditions import ConditionType
from tests.unit.flows.managed.cloudpods import Failure, refused
from tests.unit.flows.managed.money import H100, limited
from tests.unit.flows.managed.world import NAMESPACE, World


async def test_what_the_balance_stopped_although_min_available_holds_back_the_start(priced: World) -> None:
    limited(priced, AccountBudget(min_available_cents=500))
    priced.apply(gpu=H100)
    await priced.wait(5)
    limited(priced, AccountBudget(min_available_cents=500), available=-3, burn=0)
    priced.pods.become("pod-1", "stopped")
    priced.hint()
    await priced.wait(100, step=5)
    status = priced.status()
    assert priced.reason() == "WaitingForBudget"
    assert status.deletion_deadline is not None
    ready = priced.condition(ConditionType.READY)
    assert ready is not None
    assert "; if the balance stopped it, it is deleted by the cloud with its volume on " in ready.message


@pytest.mark.parametrize("before", [(), (refused(Conflict, code="POD_NODE_BUSY"),)], ids=["at once", "busy at first"])
async def test_not_of_what_was_stopped_as_asked(world: World, before: tuple[Failure, ...]) -> None:
    world.apply()
    await world.settle()
    world.change(powerState="Stopped")
    await world.wait(60)
    world.pods.fail("start", *before, *[refused(PaymentRequired)] * 3)
    world.change(powerState="Running")
    await world.wait(400)
    assert (world.reason(), world.status().deletion_deadline) == ("BalanceExhausted", None)


async def test_nor_if_it_was_to_run_again_while_it_was_paused(world: World) -> None:
    world.apply()
    await world.settle()
    world.change(powerState="Stopped")
    await world.wait(60)
    world.annotate(paused="true")
    world.change(powerState="Running")
    await world.wait(60)
    world.pods.fail("start", *[refused(PaymentRequired)] * 3)
    world.annotate(paused=None)
    await world.wait(60)
    assert (world.reason(), world.status().deletion_deadline) == ("BalanceExhausted", None)


def _told_of_funds(world: World, available: int, floor: int | None) -> None:
    """A look at the account, just now."""
    world.account.shortage.seen(available, floor, world.clock.seconds)


@pytest.mark.parametrize(("available", "floor", "is_over"), [(101, 100, True), (100, 100, False), (10**6, None, False)])
async def test_not_once_there_are_funds_though_it_is_to_stay_stopped(
    world: World, available: int, floor: int | None, is_over: bool
) -> None:
    world.apply()
    await world.settle()
    _told_of_funds(world, 1_000, floor)
    await world.wait(60)
    world.pods.fail("start", *[refused(PaymentRequired)] * 9)
    world.pods.become("pod-1", "stopped")
    world.hint()
    await world.settle()
    world.change(powerState="Stopped")
    await world.wait(60)
    assert world.reason() == "Stopped"
    assert world.status().deletion_deadline is not None, "the funds were read before it was stopped"
    assert "; deleted by the cloud with its volume on " in world.message()
    _told_of_funds(world, available, floor)
    await world.wait(600, step=5)
    assert (world.status().deletion_deadline is None) == is_over
    assert ("deleted by the cloud" in world.message()) != is_over


async def test_not_of_what_a_monthly_limit_keeps_stopped_while_there_are_funds(world: World) -> None:
    world.apply()
    await world.settle()
    world.pods.fail("start", *[refused(PaymentRequired, code="SPEND_LIMIT_REACHED")] * 99)
    world.pods.become("pod-1", "stopped")
    world.hint()
    await world.wait(10)
    assert world.status().deletion_deadline is not None, "it is not known yet that there are funds"
    assert (world.reason(), world.stalled()) == ("WaitingForBudget", ""), "more funds would not help"
    assert "; if the balance stopped it, it is deleted by the cloud with its volume on " in world.message()
    _told_of_funds(world, 1_000, 100)
    await world.wait(600, step=5)
    assert (world.reason(), world.status().deletion_deadline) == ("WaitingForBudget", None)
    assert "deleted by the cloud" not in world.message()


async def test_nor_what_a_budget_keeps_stopped_once_there_are_funds(priced: World) -> None:
    limited(priced, AccountBudget(min_available_cents=500))
    priced.apply(gpu=H100)
    await priced.wait(5)
    limited(priced, AccountBudget(min_available_cents=500), available=-3, burn=0)
    priced.pods.become("pod-1", "stopped")
    priced.hint()
    await priced.wait(100, step=5)
    assert priced.status().deletion_deadline is not None
    _told_of_funds(priced, 400, 0)
    limited(priced, AccountBudget(min_available_cents=500), available=400, burn=0)
    await priced.wait(100, step=5)
    assert (priced.reason(), priced.status().deletion_deadline) == ("WaitingForBudget", None)


async def test_what_is_interrupted_whatever_stalls_it(world: World) -> None:
    world.apply()
    await world.wait(5)
    world.change(volumeGb=100)
    await world.wait(5)
    world.pods.become("pod-1", "interrupted")
    world.hint()
    await world.settle()
    assert world.reason() == "ImmutableFieldChanged"
    assert world.status().deletion_deadline is not None


async def test_a_beginning_that_somebody_removed_is_now_and_is_written_once(world: World) -> None:
    world.apply()
    await world.wait(5)
    world.pods.become("pod-1", "interrupted")
    world.hint()
    await world.wait(600, step=5)
    world.server.edit(world.plural, NAMESPACE, "train", {"status": {"stateSince": None}}, status=True)
    world.hint()
    await world.wait(60)
    assert world.status().state_since is not None
    writes = len(world.server.writes)
    await world.wait(3600, step=5)
    assert len(world.server.writes) == writes


async def test_not_of_what_was_interrupted_once_people_stop_it(world: World) -> None:
    """What they stop is kept, whatever its node did before."""
    world.apply()
    await world.settle()
    world.pods.become("pod-1", "interrupted")
    world.hint()
    await world.settle()
    assert world.status().deletion_deadline is not None
    world.change(powerState="Stopped")
    await world.wait(100)
    assert (world.reason(), world.status().deletion_deadline) == ("Stopped", None)
    assert "deleted by the cloud" not in world.message()


async def test_what_the_balance_stopped_although_nothing_is_done_for_plan_only(world: World) -> None:
    world.apply()
    await world.settle()
    world.annotate(plan_only="true")
    await world.settle()
    world.pods.become("pod-1", "stopped")
    world.hint()
    await world.settle()
    assert world.reason() == "PlanOnly"
    assert world.status().deletion_deadline is not None
    assert "; if the balance stopped it, it is deleted by the cloud" in world.message()
