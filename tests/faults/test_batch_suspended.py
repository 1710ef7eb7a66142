"""The operator is killed while a running batch is suspended, and while records without an answer are sent again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.batch_side import CANCEL_BATCH, CREATE_BATCH, UPLOAD
from tests.faults.plans import Plan
from tests.support.faultrules import Answer, Deed, Hold, Moment, Rule, Side

if TYPE_CHECKING:
    from tests.faults.plays import Plays

pytestmark = pytest.mark.asyncio(loop_scope="session")


def _killed(operation: str, when: Moment, nth: int = 1) -> Rule:
    return Rule(Side.INFERENCE, operation, Hold(when, Deed.KILL_OPERATOR), nth=nth)


_PLANS = {
    "between the cancellations": _killed(CANCEL_BATCH, Moment.ACTED),
    "after the last cancellation": _killed(CANCEL_BATCH, Moment.DELIVERED, 2),
    "after the rest was uploaded": _killed(UPLOAD, Moment.ACTED, 3),
    "after the create of the rest was acted on": _killed(CREATE_BATCH, Moment.ACTED, 3),
}
_EVERY_TIME = "between the cancellations"


@pytest.mark.parametrize(
    "when", [pytest.param(when, marks=() if when == _EVERY_TIME else pytest.mark.long) for when in _PLANS]
)
async def test_killed_while_it_is_suspended_and_resumed(batch_plays: Plays, when: str) -> None:
    await batch_plays.holds(Plan(f"suspended killed {when}", "suspended", (_PLANS[when],)))
    assert batch_plays.stage.restarts == 1


async def test_a_cancellation_that_is_refused_for_a_moment_is_sent_again(batch_plays: Plays) -> None:
    """The cloud also refuses to cancel a batch that is ending by itself, so a refusal alone proves nothing."""
    refused = Answer(409, '{"error": "made up", "code": "CONFLICT"}')
    rules = (Rule(Side.INFERENCE, CANCEL_BATCH, refused),)
    await batch_plays.holds(Plan("suspended, and a cancellation is refused", "suspended", rules))
