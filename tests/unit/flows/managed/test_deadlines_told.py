"""When status says that the cloud will delete a resource, and when it does not (section 3)."""

from relay_client import PaymentRequired
from relay_operator.api.cloudaccount import AccountBudget
from relay_operator.api.conditions import ConditionType
from tests.unit.flows.managed.cloudpods import refused
from tests.unit.flows.managed.money import H100, limited
from tests.unit.flows.managed.world import World


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


async def test_not_of_what_was_stopped_as_asked(world: World) -> None:
    world.apply()
    await world.settle()
    world.change(powerState="Stopped")
    await world.wait(60)
    world.pods.fail("start", *[refused(PaymentRequired)] * 3)
    world.change(powerState="Running")
    await world.wait(400)
    assert (world.reason(), world.status().deletion_deadline) == ("BalanceExhausted", None)


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
