"""Each request of a scenario meets each fault of the table for such requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.every_call import needs_two_operators
from tests.faults.every_scenario import SCENARIOS
from tests.faults.sampling import SHARES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.faults.plays import Plays
    from tests.faults.sampling import Chosen

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.long
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("number", range(SHARES))
async def test_every_call(
    plays: Plays, chosen: Chosen, scenario: str, number: int, record_property: Callable[[str, object], None]
) -> None:
    if number == 0:
        record_property("fault plans", await plays.told(scenario))
    derived = await plays.derived(scenario)
    await plays.all_hold(
        [plan for plan in chosen.of_share(derived, number) if not needs_two_operators(plan)], record_property
    )


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_some_calls(
    plays: Plays, chosen: Chosen, scenario: str, record_property: Callable[[str, object], None]
) -> None:
    derived = [plan for plan in await plays.derived(scenario) if not needs_two_operators(plan)]
    sample = chosen.sample(derived, scenario)
    record_property("fault plans", "\n".join([f"{len(sample)} of {len(derived)}:", *(plan.name for plan in sample)]))
    await plays.all_hold(sample, record_property)
