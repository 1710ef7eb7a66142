"""Every watch breaks, during a create or while nothing happens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.every_scenario import SCENARIOS
from tests.faults.plans import Plan
from tests.support.faultrules import Breakage, BreakWatches, Rule, Side

if TYPE_CHECKING:
    from tests.faults.plays import Plays

pytestmark = pytest.mark.asyncio(loop_scope="session")

_WATCHED_KINDS = 4
BREAKAGES = {
    "ERROR 500": BreakWatches(Breakage.ERROR, 500),
    "ERROR 410": BreakWatches(Breakage.ERROR, 410),
    "silent": BreakWatches(Breakage.SILENT),
    "cut": BreakWatches(Breakage.CUT),
}


@pytest.mark.parametrize("what", BREAKAGES)
async def test_every_watch_breaks_while_the_create_is_under_way(plays: Plays, what: str) -> None:
    rule = Rule(Side.CLOUD, SCENARIOS["pod"].kind.create, BREAKAGES[what])
    await _holds(plays, Plan(f"pod watches {what} in mid-create", "pod", (rule,)))


@pytest.mark.long
@pytest.mark.parametrize("what", BREAKAGES)
async def test_every_watch_breaks_before_the_object_is_deleted(plays: Plays, what: str) -> None:
    rule = Rule(Side.CLOUD, SCENARIOS["cluster"].kind.look[1], BREAKAGES[what])
    await _holds(plays, Plan(f"cluster watches {what} when settled", "cluster", (rule,)))


async def _holds(plays: Plays, plan: Plan) -> None:
    await plays.learned(plan.scenario)
    before = plays.stage.proxy.broken_watches
    await plays.holds(plan)
    assert plays.stage.proxy.broken_watches - before >= _WATCHED_KINDS
