"""A pod that a test makes, and what the cloud makes of it later."""

from pydantic import JsonValue

from tests.unit.flows.managed.world import World


async def made(world: World, **spec: JsonValue) -> None:
    world.apply("train", **spec)
    await world.settle()


async def becomes(world: World, state: str, **fields: object) -> None:
    """The cloud changes it, and a webhook tells."""
    world.pods.become(world.status().id or "", state, **fields)
    world.hint()
    await world.settle()
