"""The leader is killed during a batch, and another operator takes over."""

from __future__ import annotations

import pytest

from tests.cluster.batch_side import CREATE_BATCH, UPLOAD
from tests.faults.plans import Plan
from tests.faults.plays import Plays
from tests.support.faultrules import Deed, Hold, Moment, Rule, Side

pytestmark = pytest.mark.asyncio(loop_scope="session")


_STEPS = {
    "while it uploads": (Side.INFERENCE, UPLOAD, "*"),
    "after the create was acted on": (Side.INFERENCE, CREATE_BATCH, "*"),
    "after the output was published": (Side.KUBE, "PATCH configmaps", "answers"),
}


@pytest.mark.parametrize("when", _STEPS)
async def test_the_leader_is_killed(batch_pair_plays: Plays, when: str) -> None:
    side, operation, subject = _STEPS[when]
    rule = Rule(side, operation, Hold(Moment.ACTED, Deed.KILL_OPERATOR), subject=subject)
    await batch_pair_plays.holds(Plan(f"batch leader killed {when}", "batch", (rule,)))


async def test_the_leader_hands_over_in_order_during_a_create(batch_pair_plays: Plays) -> None:
    rule = Rule(Side.INFERENCE, CREATE_BATCH, Hold(Moment.ACTED, Deed.TERMINATE_OPERATOR))
    await batch_pair_plays.holds(Plan("batch leader told to stop during the create", "batch", (rule,)))
