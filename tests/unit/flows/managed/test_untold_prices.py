"""A cloud whose answers leave out what a resource costs, or how many GPUs it has: budgets count what was asked for."""

import pytest

from relay_client import CloudUnavailable
from relay_operator.api.cloudaccount import AccountBudget, NamespaceBudget, SharedBudget
from relay_operator.engine.commitment import Commitment
from tests.unit.flows.managed.money import H100, TWO, committed, limited
from tests.unit.flows.managed.world import World


async def runs(world: World, **spec: object) -> None:
    """Long enough for its reservation to be over."""
    world.pods.born = "pending"
    world.apply("first", **spec)  # type: ignore[arg-type]
    await world.settle()
    world.pods.become("pod-1", "running")
    await world.wait(30)
    assert world.status("first").reservation_token is not None


@pytest.mark.parametrize(
    "budget",
    [
        AccountBudget(max_burn_per_hour_cents=500),
        SharedBudget(per_namespace=NamespaceBudget(max_burn_per_hour_cents=500)),
    ],
    ids=["of the account", "of the namespace"],
)
async def test_the_catalogs_price_counts_if_the_cloud_tells_none(world: World, budget: AccountBudget) -> None:
    limited(world, budget)
    await runs(world, gpu=TWO)
    assert (committed(world), world.status("first").price_per_hour_cents) == (Commitment(400, 2, 400), 400)
    world.apply("second", gpu=H100)
    await world.wait(30)
    assert (world.reason("second"), world.pods.count("create")) == ("WaitingForBudget", 1)
    assert world.message("second").endswith("400 are taken: 100 too much")
    limited(world, budget.model_copy(update=dict.fromkeys(budget.model_fields_set)), burn=400)
    await world.wait(30)
    assert world.reason("second") != "WaitingForBudget"


async def test_the_last_price_counts_while_the_catalog_cannot_be_read(world: World) -> None:
    limited(world, AccountBudget(max_burn_per_hour_cents=500))
    await runs(world, gpu=TWO)
    world.pricing.failure = CloudUnavailable("pricing", "out of order")
    await world.wait(700)
    assert committed(world) == Commitment(400, 2, 400)


async def test_a_pods_gpus_count_if_the_cloud_tells_none(world: World) -> None:
    def told(_call: str) -> None:
        for pod in world.pods.records.values():
            world.pods.become(pod.id, pod.status, price_per_hour_cents=200, gpu_count=None)

    world.pods.on_call = told
    limited(world, SharedBudget(per_namespace=NamespaceBudget(max_gpus=1)))
    await runs(world)
    world.apply("second")
    await world.wait(30)
    assert (world.reason("second"), world.pods.count("create")) == ("WaitingForBudget", 1)
