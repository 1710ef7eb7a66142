"""A derived plan whose rule meets no call is not ignored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.plans import Plan
from tests.faults.plays import HOLLOW
from tests.faults.scenarios import CLUSTER
from tests.support.faultrules import LoseReply, Rule, Side

if TYPE_CHECKING:
    from tests.faults.plays import Plays

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_plan_that_meets_no_call_is_played_in_any_state_and_told_or_fails(plays: Plays) -> None:
    elsewhere = Rule(Side.CLOUD, CLUSTER.create, LoseReply(), phase="create", state="Unheard")
    never = Rule(Side.CLOUD, CLUSTER.create, LoseReply(), phase="delete")
    told: list[tuple[str, object]] = []
    with pytest.raises(AssertionError, match="these rules met no call") as failed:
        await plays.all_hold(
            [Plan("elsewhere", "cluster", (elsewhere,)), Plan("never", "cluster", (never,))],
            lambda *its: told.append(its),
        )
    assert told == [(HOLLOW, "elsewhere: met in another state")]
    assert str(failed.value).startswith("never: these rules met no call")
