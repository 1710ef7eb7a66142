"""Status writes are refused with a conflict several times in a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.plans import Plan
from tests.support.faultrules import Answer, Rule, Side, kube_failure

if TYPE_CHECKING:
    from tests.faults.plays import Plays

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.parametrize("scenario", ["pod", "cluster"])
async def test_every_status_write_may_be_refused_several_times(plays: Plays, scenario: str) -> None:
    refusal = Answer(409, kube_failure(409, "Conflict", "the object has been modified"))
    rule = Rule(Side.KUBE, "PATCH gpu*/status", refusal, times=3)
    await plays.holds(Plan(f"{scenario} three conflicts in a row", scenario, (rule,)))
