"""What GPUs are asked for, what the account's budget allows, and what of it is committed and reserved."""

from dataclasses import replace

from pydantic import JsonValue

from relay_operator.api.cloudaccount import AccountBudget
from relay_operator.api.meta import ObjectKey, Reservation
from relay_operator.engine.commitment import NOTHING, Commitment
from relay_operator.engine.queue import Priority
from tests.unit.flows.managed.world import NAMESPACE, World

H100: JsonValue = {"modelId": "h100"}
TWO: JsonValue = {"modelId": "h100", "count": 2}


def limited(
    world: World, budget: AccountBudget | None, available: int | None = 1000, burn: int | None = 0, only: str = ""
) -> None:
    """The account's budget, and what the cloud says of its money; of all objects, `only` this one hears of it."""
    ready = world.account.ready
    world.account.state = replace(ready, budget=budget)
    ready = replace(ready, budget=budget)
    world.budgets.looked(ready, available, burn, world.budgets.paid(ready))
    for key in world.cache.keys("GpuPod"):  # as whatever uses an account that has changed
        if only in {"", key.name}:
            world.queue.add(key, Priority.CHANGE)


def account(world: World) -> ObjectKey:
    return world.account.ready.key


def committed(world: World) -> Commitment:
    return world.cache.committed(account(world)).get(NAMESPACE, NOTHING)


def reserved(world: World, name: str = "train") -> Reservation | None:
    return world.readable_intent(name).reserved
