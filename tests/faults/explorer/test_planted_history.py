"""Proves the explorer: it finds a bug planted into a copy of the operator, and shortens the history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.faults.explorer.chance import by_chance
from tests.faults.explorer.expedition import Expedition
from tests.faults.explorer.history import Do, History
from tests.faults.planting import planted
from tests.faults.stage import LEASE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faults.stage import Stages
    from tests.support.localcloud import LocalCloud

_ACTS: Final = 12
_MOST_RUNS: Final = 8
# Two operators race, so a history need not end the same way each time.
_MOST_REPLAYS: Final = 5
_CAUGHT: Final = "which was made for"


@pytest.mark.long
@pytest.mark.asyncio(loop_scope="session")
async def test_a_planted_bug_is_come_upon_and_its_history_made_short(
    stages: Stages, fault_cloud: LocalCloud, tmp_path: Path
) -> None:
    under = ("env", f"PYTHONPATH={planted('a-copy-takes-over', tmp_path)}")
    async with stages.stage(fault_cloud, LEASE, replicas=2, under=under) as stage:
        expedition = Expedition(stage, tmp_path)
        short, failure = await _come_upon(expedition)
        saved = short.save(tmp_path)
        replayed = [(await expedition.failure_of(History.load(saved)))[0] for _ in range(_MOST_REPLAYS)]
    assert _CAUGHT in failure
    assert Do.COPY in {act.do for act in short.acts}
    assert len(short.acts) < _ACTS
    assert any(_CAUGHT in failure for failure in replayed)


async def _come_upon(expedition: Expedition) -> tuple[History, str]:
    """Returns the first failing history with a copy in it, shortened, and how it fails."""
    histories = (by_chance(seed, _ACTS) for seed in range(1000))
    for history in (one for one in histories if Do.COPY in {act.do for act in one.acts}):
        failure, done = await expedition.failure_of(history)
        if failure:
            return await expedition.shortest(done, failure, _MOST_RUNS)
    raise AssertionError("no history came upon it")
