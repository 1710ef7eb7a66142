"""The leader is frozen during each request of a scenario, and thawed when another leads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.every_call import needs_two_operators
from tests.faults.every_scenario import SCENARIOS
from tests.faults.sampling import SHARES
from tests.faults.scenarios import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.faults.plays import Plays
    from tests.faults.sampling import Chosen

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.long
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("number", range(SHARES))
async def test_every_freeze(
    pair_plays: Plays, chosen: Chosen, scenario: str, number: int, record_property: Callable[[str, object], None]
) -> None:
    derived = await pair_plays.derived(scenario)
    await pair_plays.all_hold(
        [plan for plan in chosen.of_share(derived, number) if needs_two_operators(plan)], record_property
    )


@pytest.mark.parametrize("scenario", WORKLOADS)
async def test_some_freezes(
    pair_plays: Plays, chosen: Chosen, scenario: str, record_property: Callable[[str, object], None]
) -> None:
    derived = await pair_plays.derived(scenario)
    await pair_plays.all_hold(
        chosen.sample([plan for plan in derived if needs_two_operators(plan)], scenario), record_property
    )
