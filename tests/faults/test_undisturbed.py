"""The undisturbed runs with which plans are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.every_scenario import SCENARIOS
from tests.faults.plans import Plan
from tests.faults.scenarios import WORKLOADS

if TYPE_CHECKING:
    from tests.faults.plays import Plays

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.long
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_nothing_is_written_for_a_minute_once_everything_is_as_asked(plays: Plays, scenario: str) -> None:
    await plays.holds(Plan(f"{scenario} for a minute", scenario, quiet=60.0))


@pytest.mark.parametrize("scenario", [*WORKLOADS, "vm"])
async def test_undisturbed_one_resource_is_made_used_and_ended(plays: Plays, scenario: str) -> None:
    ending = (await plays.learned(scenario)).ending
    assert (ending.created, ending.paid_for) == (1, 1)
