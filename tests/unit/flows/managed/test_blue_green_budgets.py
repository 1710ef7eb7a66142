"""While the new resource stands beside the old one, limits count both."""

import pytest

from relay_client import BadRequest
from relay_operator.api.cloudaccount import AccountBudget
from relay_operator.budgets.prices import Prices
from relay_operator.engine.commitment import Commitment
from tests.unit.flows.managed.blue_green import KEY, becomes, ids, live, status, until
from tests.unit.flows.managed.cloudpods import refused
from tests.unit.flows.managed.money import limited
from tests.unit.flows.managed.world import World


async def test_the_budget_counts_both(blue: World) -> None:
    blue.pods.become("pod-1", "running", price_per_hour_cents=200, gpu_count=1)
    blue.hint()
    await blue.wait(5)
    limited(blue, AccountBudget(max_burn_per_hour_cents=399))
    blue.change(image="another")
    await blue.wait(30)
    assert (blue.reason(), ids(blue)) == ("WaitingForBudget", ["pod-1"])
    limited(blue, AccountBudget(max_burn_per_hour_cents=400))
    await blue.wait(5)
    assert (blue.reason(), ids(blue)) == ("Deploying", ["pod-2", "pod-1"])
    entry = blue.cache.get(KEY)
    assert entry is not None
    assert entry.committed == Commitment(400, 2, 200)
    assert status(blue).paying_per_hour_cents == 200
    becomes(blue, "pod-2", "running")
    blue.pods.become("pod-2", "running", price_per_hour_cents=200)
    await blue.wait(5)
    assert status(blue).paying_per_hour_cents == 400
    await blue.wait(90)
    assert status(blue).paying_per_hour_cents == 200


async def test_the_old_one_counts_once_while_the_new_one_is_created(blue: World) -> None:
    blue.pods.become("pod-1", "running", price_per_hour_cents=200, gpu_count=1)
    blue.hint()
    await blue.wait(5)
    limited(blue, AccountBudget(max_burn_per_hour_cents=400), burn=200)
    blue.change(image="another")
    await blue.wait(5)
    assert (blue.reason(), ids(blue)) == ("Deploying", ["pod-2", "pod-1"])


async def test_what_was_reserved_for_a_new_one_that_is_refused_is_over(blue: World) -> None:
    blue.pods.become("pod-1", "running", price_per_hour_cents=200, gpu_count=1)
    blue.hint()
    await blue.wait(5)
    limited(blue, AccountBudget(max_burn_per_hour_cents=800))
    blue.pods.fail("create", *[refused(BadRequest)] * 9)
    blue.change(image="another", gpu={"modelId": "h100", "count": 2})
    await blue.wait(5)
    entry = blue.cache.get(KEY)
    assert entry is not None
    assert (blue.reason(), ids(blue), entry.committed) == ("SpecInvalid", ["pod-1"], Commitment(200, 1, 200))


async def test_the_limit_of_the_object_counts_both(blue: World) -> None:
    blue.pods.become("pod-1", "running", price_per_hour_cents=200, gpu_count=1)
    blue.change(budget={"maxPricePerHourCents": 300})
    await blue.wait(5)
    blue.change(image="another")
    await blue.wait(5)
    assert (blue.reason(), ids(blue)) == ("BudgetExceeded", ["pod-1"])
    said = "it costs 200 cents/h and the one that it replaces costs 200 cents/h, and budget.maxPricePerHourCents is 300"
    assert said in blue.message()


@pytest.fixture
def without_catalog(world: World) -> None:
    world.pricing.prices = Prices({}, {})


@pytest.mark.usefixtures("without_catalog")
async def test_what_nobody_knows_the_price_of_counts_as_that(both: World) -> None:
    entry = both.cache.get(KEY)
    assert entry is not None
    assert entry.committed.unpriced == 2


async def test_between_the_two_steps_the_budget_may_be_taken(blue: World) -> None:
    blue.pods.become("pod-1", "running", price_per_hour_cents=200, gpu_count=1)
    blue.hint()
    await blue.wait(5)
    limited(blue, AccountBudget(max_burn_per_hour_cents=400))
    blue.change(image="another")
    await until(blue, lambda: status(blue).id is None)
    limited(blue, AccountBudget(max_burn_per_hour_cents=300))
    await blue.wait(5)
    assert (blue.reason(), ids(blue), live(blue)) == ("WaitingForBudget", ["pod-1"], ["pod-1"])
