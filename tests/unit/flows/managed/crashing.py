"""A process of the operator that dies at a chosen request."""

from dataclasses import dataclass

from tests.unit.flows.managed.world import World


class DiedError(BaseException):
    """The process is gone."""


@dataclass
class Crash:
    """Dies at the n-th moment of some kind."""

    at: int

    def __call__(self, _: object) -> None:
        self.at -= 1
        if self.at == 0:
            raise DiedError


async def until_it_dies(world: World, step: int, within: float) -> None:
    """Works for so many seconds, or until the process dies at this request to the API server or the cloud."""
    crash = Crash(step)
    world.server.before = crash
    world.pods.on_call = crash
    try:
        await world.wait(within)
    except DiedError:
        pass
    finally:
        world.server.before = lambda _: None
        world.pods.on_call = lambda _: None
