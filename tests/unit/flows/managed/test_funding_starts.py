"""A start, a restart and a create that is sent again wait for room as a first create does."""

from dataclasses import replace

import pytest
from pydantic import JsonValue

from relay_client import CapacityExhausted
from relay_operator.api.cloudaccount import AccountBudget
from relay_operator.budgets.prices import Capacity, Prices
from relay_operator.engine.commitment import NOTHING
from relay_operator.kinds.gpupod import Pod
from relay_wire.vms import VmRecord
from tests.unit.flows.managed.cloudpods import MemoryPods, lost, refused
from tests.unit.flows.managed.money import H100, TWO, committed, limited, reserved
from tests.unit.flows.managed.world import World


class PodsThatHadTen(MemoryPods):
    """Pods that are asked for twice, and come back ten times, as a cluster's replicas do."""

    def capacity(self, obj: Pod, model_id: str) -> Capacity:
        return replace(super().capacity(obj, model_id), replicas=2)

    def grown(self, obj: Pod, observed: VmRecord) -> Capacity:
        return replace(super().grown(obj, observed), replicas=10)


async def test_a_start_and_its_reservation(priced: World) -> None:
    limited(priced, AccountBudget(max_burn_per_hour_cents=200))
    priced.apply(gpu=H100)
    await priced.wait(10)
    priced.change(powerState="Stopped")
    await priced.wait(10)
    assert committed(priced) == NOTHING
    priced.apply("other", gpu=H100)
    await priced.wait(10)
    priced.change(powerState="Running")
    await priced.wait(10)
    assert (priced.reason("other"), priced.reason(), priced.pods.count("start")) == ("Running", "WaitingForBudget", 0)
    priced.change("other", powerState="Stopped")
    priced.pods.fail("start", lost(acted=False))
    await priced.wait(400)
    assert (priced.reason(), priced.pods.count("start")) == ("Running", 2)
    granted = reserved(priced)
    assert granted is not None
    assert (granted.cents, priced.status().reservation_token) == (200, granted.token)


async def test_a_start_that_the_cloud_refuses_stays_reserved_until_people_stop_it(priced: World) -> None:
    limited(priced, AccountBudget(max_burn_per_hour_cents=200))
    priced.apply(gpu=H100, powerState="Stopped")
    await priced.wait(10)
    priced.pods.fail("start", *[lost(acted=False)] * 50)
    priced.change(powerState="Running")
    await priced.wait(30)
    assert committed(priced).cents == 200
    before = priced.server.writes.count("PATCH gpupods")
    await priced.wait(30)
    assert priced.server.writes.count("PATCH gpupods") == before
    priced.change(powerState="Stopped")
    await priced.wait(10)
    assert (priced.reason(), committed(priced)) == ("Stopped", NOTHING)


async def test_a_start_costs_what_was_got_and_not_what_would_be_tried_first(priced: World) -> None:
    priced.pricing.prices = Prices({"t4": 20, "h100": 200}, {})
    limited(priced, AccountBudget(max_burn_per_hour_cents=250))
    priced.pods.fail("create", refused(CapacityExhausted))
    priced.apply(gpu={"modelIds": ["t4", "h100"]})
    priced.apply("other", gpu=H100, powerState="Stopped")
    await priced.wait(30)
    priced.change(powerState="Stopped")
    await priced.wait(10)
    priced.change("other", powerState="Running")
    await priced.wait(10)
    priced.change(powerState="Running")
    await priced.wait(10)
    assert (priced.reason("other"), priced.reason()) == ("Running", "WaitingForBudget")


async def test_a_restart_of_what_failed_waits_as_well_and_says_so(priced: World) -> None:
    limited(priced, AccountBudget(min_available_cents=100), 100)
    priced.apply(gpu=H100, recovery={"onFailed": "Restart"})
    await priced.wait(10)
    limited(priced, AccountBudget(min_available_cents=100), 99)
    priced.pods.become("pod-1", "failed")
    await priced.wait(400)
    assert (priced.reason(), priced.pods.count("start")) == ("WaitingForBudget", 0)
    limited(priced, AccountBudget(min_available_cents=100), 100)
    await priced.wait(10)
    assert (priced.reason(), priced.pods.count("start")) == ("Running", 1)


async def test_a_restart_of_what_failed_that_people_ask_for_is_a_start_too(priced: World) -> None:
    limited(priced, AccountBudget(min_available_cents=500))
    priced.apply(gpu=H100)
    await priced.wait(10)
    priced.pods.become("pod-1", "failed")
    limited(priced, AccountBudget(min_available_cents=500), available=499)
    priced.annotate(restarted_at="now")
    await priced.wait(10)
    assert (priced.reason(), priced.pods.live[0].status) == ("WaitingForBudget", "failed")
    limited(priced, AccountBudget(min_available_cents=500))
    await priced.wait(10)
    assert (priced.reason(), priced.status().restarted_at) == ("Running", "now")


async def test_so_is_one_that_people_ask_for_while_the_next_recovery_is_delayed(priced: World) -> None:
    limited(priced, AccountBudget(min_available_cents=500))
    priced.apply(gpu=H100, recovery={"onFailed": "Restart"})
    await priced.wait(10)
    for _ in range(2):
        priced.pods.become("pod-1", "failed")
        priced.hint()
        await priced.wait(2)
    assert (priced.reason(), priced.pods.count("start")) == ("BackOff", 1)
    limited(priced, AccountBudget(min_available_cents=500), available=499)
    priced.annotate(restarted_at="now")
    await priced.wait(2)
    assert (priced.reason(), priced.pods.count("start")) == ("WaitingForBudget", 1)
    limited(priced, AccountBudget(min_available_cents=500))
    await priced.wait(10)
    assert (priced.reason(), priced.status().restarted_at) == ("Running", "now")


async def test_what_is_sent_again_is_asked_for_again(priced: World) -> None:
    priced.account.state = replace(priced.account.ready, resend_unknown=True)
    limited(priced, AccountBudget(max_burn_per_hour_cents=450))
    priced.pods.listable = False
    priced.pods.fail("create", lost(acted=False))
    priced.apply(gpu=H100)
    await priced.one_pass()
    priced.change(gpu={"modelId": "h100", "count": 3})
    await priced.wait(3600, step=30)
    assert (priced.reason(), priced.pods.count("create")) == ("WaitingForBudget", 1)
    priced.change(gpu=TWO)
    await priced.wait(600, step=30)
    granted = reserved(priced)
    assert granted is not None
    assert (granted.cents, priced.pods.count("create"), len(priced.pods.live)) == (400, 2, 1)


async def test_what_is_asked_for_now_is_sent_although_more_was_reserved_before(priced: World) -> None:
    priced.account.state = replace(priced.account.ready, resend_unknown=True)
    limited(priced, AccountBudget(max_burn_per_hour_cents=450))
    priced.pods.listable = False
    priced.pods.fail("create", lost(acted=False))
    priced.apply(gpu=TWO)
    await priced.one_pass()
    limited(priced, AccountBudget(max_burn_per_hour_cents=250))
    priced.change(gpu={"modelId": "h100", "count": 1})
    await priced.wait(3600, step=30)
    assert (priced.reason(), priced.pods.count("create"), len(priced.pods.live)) == ("Running", 2, 1)


async def test_a_start_counts_what_others_pay_in_place_of_what_was_seen_to_end_later(priced: World) -> None:
    """Somebody stops it in the cloud, others begin to pay, and no webhook tells before the look does."""
    budget = AccountBudget(max_burn_per_hour_cents=500)
    limited(priced, budget)
    priced.apply(gpu=H100)
    await priced.wait(400)
    priced.pods.become("pod-1", "stopped")
    limited(priced, budget, burn=400)
    await priced.wait(30)
    assert (priced.reason(), priced.pods.count("start")) == ("WaitingForBudget", 0)
    limited(priced, budget, burn=300)
    await priced.wait(30)
    assert (priced.reason(), priced.pods.count("start")) == ("Running", 1)


async def test_what_is_left_in_the_cloud_while_it_deploys_counts_although_the_burn_lacks_it(priced: World) -> None:
    budget = AccountBudget(max_burn_per_hour_cents=500)
    limited(priced, budget)
    priced.pods.born = "deploying"
    priced.apply(gpu=TWO, deletionPolicy="Orphan")
    await priced.wait(10)
    priced.delete()
    await priced.wait(10)
    limited(priced, budget)
    priced.apply("other", gpu=TWO)
    await priced.wait(10)
    assert (priced.reason("other"), priced.pods.count("create")) == ("WaitingForBudget", 1)


@pytest.mark.parametrize(
    ("reason", "own", "of_the_account"),
    [("BudgetExceeded", 500, None), ("WaitingForBudget", None, AccountBudget(max_burn_per_hour_cents=500))],
)
async def test_a_start_that_brings_back_more_than_the_budget_allows_says_so_and_the_way_out(
    world: World, reason: str, own: int | None, of_the_account: AccountBudget | None
) -> None:
    world.kind = PodsThatHadTen
    world.assemble()
    limited(world, of_the_account)
    budget: JsonValue = None if own is None else {"maxPricePerHourCents": own}
    world.apply(gpu=H100, powerState="Stopped", budget=budget)
    await world.wait(10)
    world.change(powerState="Running")
    await world.wait(10)
    assert (world.reason(), world.pods.count("start")) == (reason, 0)
    assert "2000 cents/h" in world.message()
    assert world.message().endswith(
        "; that is for 10 replicas, since a start brings back those that it had, and only then can it be scaled to 2: "
        "raise the limit for the start, or delete this object and create it again"
    )
