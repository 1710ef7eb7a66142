"""Work on records leaves the event loop its turns."""

import asyncio

from relay_operator.records.pace import TURNS, Pace
from tests.support.turns import others


class _Clock:
    """A second for each look at it."""

    def __init__(self, step: float) -> None:
        self.now = 0.0
        self.step = step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


async def test_within_a_slice_nothing_is_given_up() -> None:
    pace = Pace(100, _Clock(1))
    others: list[str] = []
    asyncio.get_running_loop().call_soon(others.append, "ran")
    await pace.turn()
    assert not others


async def test_after_a_slice_the_loop_gets_several_turns() -> None:
    pace = Pace(1, _Clock(1))
    with others() as working:
        await pace.turn()
    assert working.turns == TURNS


async def test_many_streams_take_one_slice_at_a_time_and_in_order() -> None:
    pace, worked = Pace(1, _Clock(1)), []

    async def stream(name: int) -> None:
        for _ in range(3):
            await pace.turn()
            worked.append((name, turns))

    turns = 0
    streams = [asyncio.create_task(stream(name)) for name in range(5)]
    while not all(each.done() for each in streams):
        turns += 1
        await asyncio.sleep(0)
    assert [name for name, _ in worked] == list(range(5)) * 3
    assert len({turn for _, turn in worked}) == len(worked)
