"""What GPUs are asked for, what the account's budget allows, and what of it is committed and reserved."""

from dataclasses import replace

from pydantic import JsonValue

from relay_operator.api.cloudaccount import AccountBudget
from relay_operator.api.meta import ObjectKey, Reservation, Resource
from relay_operator.api.workload import SpecT, StatusT
from relay_operator.engine.commitment import NOTHING, Commitment
from relay_operator.engine.flow import Turn
from relay_operator.engine.queue import Priority
from relay_operator.flows.managed.memory import ManagedMemory
from relay_operator.flows.managed.subject import Subject
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


def subject(world: World, obj: Resource[SpecT, StatusT]) -> Subject[SpecT, StatusT]:
    """An object that is about to be looked at with the world's account."""
    turn = Turn(obj.key, obj.metadata.uid, world.clock.wall(), Priority.CHANGE)
    return Subject(turn, obj, world.account.ready, ManagedMemory(obj.metadata.uid))


def account(world: World) -> ObjectKey:
    return world.account.ready.key


def committed(world: World) -> Commitment:
    return world.cache.committed(account(world)).get(NAMESPACE, NOTHING)


def reserved(world: World, name: str = "train") -> Reservation | None:
    return world.readable_intent(name).reserved
