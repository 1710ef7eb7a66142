"""Whatever fails, whenever: never two resources for one object, and none without an object."""

import random
from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relay_client import CapacityExhausted, Conflict
from tests.unit.engine.apiserver import Call, Fault
from tests.unit.flows.managed.cloudpods import Failure, lost, refused
from tests.unit.flows.managed.world import World, fixed_random, running_world

NAMES = ("one", "two")
RARELY = 0.25


class Chaos:
    """Lets calls fail at random while it lasts, and people do things in between."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.chance = random.Random(seed)
        self.peak: Counter[str] = Counter()
        self.missed: set[str] = set()
        world.random = fixed_random(seed)
        world.assemble()
        world.pods.random_failure = self._cloud
        world.pods.on_call = self._count
        world.pods.misses = self._misses
        world.server.before = self._kubernetes

    def _cloud(self, call: str) -> Failure | None:
        if self.chance.random() > RARELY:
            return None
        kinds = [lost(acted=True), lost(acted=False), refused(CapacityExhausted, code="NODE_AT_CAPACITY")]
        if call in ("observe", "find"):
            kinds = [lost(acted=False)]
        elif call != "create":
            kinds.append(refused(Conflict))
        return self.chance.choice(kinds)

    def _misses(self, subject: str) -> bool:
        """Reads and lists may miss what is there; whoever looks again is answered."""
        again = subject in self.missed
        self.missed.discard(subject)
        if not again and self.chance.random() < RARELY:
            self.missed.add(subject)
        return subject in self.missed

    def _kubernetes(self, _: Call) -> None:
        self.world.server.faults.clear()
        if self.chance.random() < RARELY:
            status = self.chance.choice([0, 409, 429, 500, 503])
            acted = status in (0, 500, 503) and self.chance.random() < 0.5
            self.world.server.faults.append(Fault(status, acted=acted))

    def _count(self, _: str) -> None:
        """No two live pods of one object at any moment: the name begins with the object's."""
        alive = Counter(record.name.split("-")[2] for record in self.world.pods.live)
        self.peak |= alive

    async def act(self) -> None:
        """One thing that happens to people, processes and pods."""
        world, name = self.world, self.chance.choice(NAMES)
        match self.chance.randrange(6):
            case 0:
                world.server.before, before = (lambda _: None), world.server.before
                world.server.faults.clear()
                await world.restart()
                world.server.before = before
            case 1:
                world.watching = not world.watching
            case 2 if world.exists(name):
                world.annotate(name, reconcile_at=str(self.chance.random()))
            case 3 if world.exists(name):
                world.change(name, image=self.chance.choice(["a", "b"]))
            case 4 if world.pods.live:
                world.pods.become(self.chance.choice(world.pods.live).id, self.chance.choice(["stopped", "failed"]))
            case _:
                world.hint(name)
        await world.wait(self.chance.choice([0, 5, 40, 200]), step=5)

    async def calm(self) -> None:
        """Nothing fails any more."""
        world = self.world
        world.pods.random_failure = lambda _: None
        world.pods.misses = lambda _: False
        world.server.before, world.watching = (lambda _: None), True
        world.server.faults.clear()
        await world.restart()
        await world.wait(3000, step=10)


@settings(max_examples=25, suppress_health_check=list(HealthCheck), derandomize=True)
@given(seed=st.integers(min_value=0, max_value=2**32), steps=st.integers(min_value=1, max_value=12))
async def test_no_object_ever_has_two_and_none_is_left_when_all_are_gone(seed: int, steps: int) -> None:
    async with running_world() as world:
        chaos = Chaos(world, seed)
        for name in NAMES:
            world.apply(name, updateStrategy={"type": "Recreate"}, recovery={"onFailed": "Recreate"})
        for _ in range(steps):
            await chaos.act()
        await chaos.calm()
        assert max(chaos.peak.values(), default=0) <= 1
        for name in NAMES:
            assert world.reason(name) == "Running", world.status(name)
            assert world.readable_intent(name).token == world.status(name).create_token
        recorded = sorted(world.status(name).id or "" for name in NAMES)
        assert sorted(record.id for record in world.pods.live) == recorded
        for name in NAMES:
            world.delete(name)
        world.pods.random_failure, world.server.before = chaos._cloud, chaos._kubernetes
        await world.wait(60, step=5)
        await chaos.calm()
        assert [name for name in NAMES if world.exists(name)] == []
        assert world.pods.live == []
