"""Under random acts of people and of the world, from a seed, every oracle holds at each settling."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.explorer.chance import by_chance
from tests.faults.explorer.history import History

if TYPE_CHECKING:
    from tests.faults.explorer.expedition import Expedition

pytestmark = pytest.mark.asyncio(loop_scope="session")
_HISTORIES, _ACTS, _FEW_ACTS = 40, 50, 8


@pytest.mark.long
@pytest.mark.parametrize("number", range(_HISTORIES))
async def test_a_history_holds(expedition: Expedition, request: pytest.FixtureRequest, number: int) -> None:
    await expedition.holds(by_chance((request.config.getoption("--histories-from") or 0) + number, _ACTS))


async def test_a_short_history_holds(expedition: Expedition, request: pytest.FixtureRequest) -> None:
    await expedition.holds(by_chance(request.config.getoption("--sample") or 0, _FEW_ACTS))


async def test_the_saved_history_is_replayed(expedition: Expedition, request: pytest.FixtureRequest) -> None:
    failure, _ = await expedition.failure_of(History.load(request.config.getoption("--history")))
    assert not failure, failure
