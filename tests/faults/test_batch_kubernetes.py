"""The API server refuses or loses writes about a batch, or does not answer them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.batch_steps import STATUS, written
from tests.faults.plans import Plan
from tests.support.faultrules import Answer, LoseReply, Rule, Side, kube_failure

if TYPE_CHECKING:
    from tests.faults.plays import Plays

pytestmark = pytest.mark.asyncio(loop_scope="session")

_CONFLICT = Answer(409, kube_failure(409, "Conflict", "the object has been modified"))
_EXISTS = Answer(409, kube_failure(409, "AlreadyExists", "it exists already"))
_LOST = {
    "conflict": _CONFLICT,
    "500 though written": Answer(500, kube_failure(500, "InternalError", "it broke"), acted=True),
}


async def test_every_write_may_be_refused_once(batch_plays: Plays) -> None:
    writes = list(written((await batch_plays.learned("batch")).calls))
    assert len(writes) >= 10, f"there should be more writes than {writes}"
    # Every second write, since the one after a refused write is the same again.
    rules = tuple(
        Rule(Side.KUBE, operation, _EXISTS if operation.startswith("POST ") else _CONFLICT, subject, nth=2 * nth - 1)
        for operation, subject, nth in writes
    )
    await batch_plays.holds(Plan("batch 409 at every write", "batch", rules), meets=False)


@pytest.mark.parametrize("what", _LOST)
async def test_every_status_write_may_fail_several_times(batch_plays: Plays, what: str) -> None:
    rules = tuple(Rule(Side.KUBE, STATUS, _LOST[what], nth=nth, times=2) for nth in range(1, 30, 3))
    await batch_plays.holds(Plan(f"batch status writes {what}", "batch", rules), meets=False)


async def test_the_output_is_written_again_where_nobody_knows(batch_plays: Plays) -> None:
    rule = Rule(Side.KUBE, "PATCH configmaps", LoseReply(), subject="answers")
    await batch_plays.holds(Plan("batch output reply lost", "batch", (rule,)))
