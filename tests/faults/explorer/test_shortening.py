"""Failing histories are shortened in a bounded number of runs."""

from __future__ import annotations

import pytest

from tests.faults.explorer.history import Act, Do, History
from tests.faults.explorer.shortening import MOST_RUNS, shortened


class Player:
    """Plays histories of numbered acts; a history fails if it has all the guilty acts, in order."""

    def __init__(self, *guilty: int) -> None:
        self._guilty = guilty
        self.runs = 0

    async def fails(self, history: History) -> bool:
        self.runs += 1
        return tuple(act.number for act in history.acts if act.number in self._guilty) == self._guilty


def numbered(count: int) -> History:
    return History("numbered", tuple(Act(Do.CLOCK, number=number) for number in range(1, count + 1)))


@pytest.mark.parametrize("guilty", [(), (1,), (50,), (17, 18), (3, 49)])
async def test_few_acts_are_left(guilty: tuple[int, ...]) -> None:
    player = Player(*guilty)
    short = await shortened(numbered(50), player.fails)
    assert await player.fails(short)
    assert len(short.acts) <= 4 * max(len(guilty), 1)


async def test_with_as_many_runs_as_it_takes_only_the_guilty_are_left() -> None:
    short = await shortened(numbered(50), Player(3, 17, 49).fails, most_runs=1000)
    assert [act.number for act in short.acts] == [3, 17, 49]


@pytest.mark.parametrize("guilty", [(), (25,), tuple(range(1, 51, 2)), tuple(range(1, 51))])
async def test_it_is_played_at_most_twenty_times(guilty: tuple[int, ...]) -> None:
    player = Player(*guilty)
    await shortened(numbered(50), player.fails)
    assert player.runs <= MOST_RUNS == 20


async def test_what_cannot_be_shortened_stays() -> None:
    whole = numbered(4)
    assert await shortened(whole, Player(1, 2, 3, 4).fails) == whole


async def test_what_fails_without_any_act_is_left_without_acts() -> None:
    assert not (await shortened(numbered(8), Player().fails)).acts


async def test_nothing_is_played_where_there_is_nothing_to_leave_out() -> None:
    player = Player()
    await shortened(History("empty", ()), player.fails)
    assert player.runs == 0
