"""Whatever is lost, late, edited or interleaved, two replicas never lead at once."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from relay_operator.leader.election import Election, LeaseLostError
from tests.unit.leader.lease import World


class _Replica:
    """A process: elected, then renewing; after losing it starts again under another identity."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name, self.starts = world, name, 0
        self.election = self._started()
        self.elected = False

    def _started(self) -> Election:
        self.starts += 1
        return self.world.candidate(f"{self.name}-{self.starts}")

    async def turn(self) -> None:
        if not self.elected:
            self.elected = await self.election.attempt()
            return
        try:
            await self.election.renew()
        except LeaseLostError:
            self.elected, self.election = False, self._started()


_STEPS = st.lists(
    st.tuples(
        st.integers(0, 3),  # whose turn; the last is somebody who empties the Lease
        st.sampled_from([0.0, 0.5, 2.0, 2.0, 5.0, 9.9, 10.0, 15.0, 40.0]),  # how much later
        st.lists(st.sampled_from(["", "", "before", "after", "slow"]), max_size=2),
    ),
    max_size=60,
)


@given(_STEPS)
def test_two_replicas_never_lead_at_once(steps: list[tuple[int, float, list[str]]]) -> None:
    async def run() -> None:
        world = World()
        replicas = [_Replica(world, name) for name in "abc"]
        for index, later, faults in steps:
            world.now += later
            world.faults = list(faults)
            if index == len(replicas):
                world.empty()
            else:
                await replicas[index].turn()
            assert sum(replica.election.leading() for replica in replicas) <= 1

    asyncio.run(run())
