"""Writes about a batch are refused, lost or not answered by the API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.batch_scenarios import BATCHES
from tests.faults.batch_steps import STATUS, steps
from tests.faults.plans import Plan
from tests.support.faultrules import Action, Answer, Drop, LoseReply, Rule, Side, kube_failure

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.faults.plays import Plays
    from tests.support.faultrules import Logged

pytestmark = pytest.mark.asyncio(loop_scope="session")

_CONFLICT = Answer(409, kube_failure(409, "Conflict", "the object has been modified"))
_EXISTS = Answer(409, kube_failure(409, "AlreadyExists", "it exists already"))
_BROKEN = Answer(500, kube_failure(500, "InternalError", "the API server broke"))
_LOST: dict[str, Action] = {
    "conflict": _CONFLICT,
    "500": _BROKEN,
    "500 though written": Answer(500, _BROKEN.body, acted=True),
    "dropped": Drop(),
    "reply lost": LoseReply(),
}


def _each_write(scenario: str, learned: Iterable[Logged], what: str) -> Iterator[Plan]:
    """A plan for each write of the undisturbed run about the batch."""
    for side, operation, subject, nth in steps(learned, writes_to_kubernetes=True):
        action = _EXISTS if what == "conflict" and operation.startswith("POST ") else _LOST[what]
        rule = Rule(side, operation, action, subject=subject, nth=nth)
        yield Plan(f"{scenario} {what} at {operation} {nth}", scenario, (rule,))


async def test_every_write_may_be_refused_once(batch_plays: Plays) -> None:
    writes = list(_each_write("batch", (await batch_plays.learned("batch")).calls, "conflict"))
    assert len(writes) >= 10, f"there should be more writes than {writes}"
    # Every second write, since the one after a refused write is the same again.
    rules = tuple(
        Rule(rule.side, rule.operation, rule.action, subject=rule.subject, nth=2 * rule.nth - 1)
        for plan in writes
        for rule in plan.rules
    )
    await batch_plays.holds(Plan("batch 409 at every write", "batch", rules), meets=False)


@pytest.mark.parametrize("what", ["conflict", "500 though written"])
async def test_every_status_write_may_fail_several_times(batch_plays: Plays, what: str) -> None:
    rules = tuple(Rule(Side.KUBE, STATUS, _LOST[what], nth=nth, times=2) for nth in range(1, 30, 3))
    await batch_plays.holds(Plan(f"batch status writes {what}", "batch", rules), meets=False)


async def test_the_output_is_written_again_where_nobody_knows(batch_plays: Plays) -> None:
    rule = Rule(Side.KUBE, "POST configmaps", LoseReply(), subject="answers")
    await batch_plays.holds(Plan("batch output reply lost", "batch", (rule,)))


@pytest.mark.long
@pytest.mark.parametrize("what", _LOST)
@pytest.mark.parametrize("scenario", BATCHES)
async def test_each_write_may_fail(batch_plays: Plays, scenario: str, what: str) -> None:
    plans = list(_each_write(scenario, (await batch_plays.learned(scenario)).calls, what))
    failures = [failure for plan in plans if (failure := await batch_plays.failure_of(plan, meets=False))]
    assert not failures, "\n\n".join(failures)
