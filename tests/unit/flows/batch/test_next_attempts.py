"""When a batch is attempted again."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest

from relay_operator.api.conditions import Reason
from relay_operator.api.inferencebatch import OutputStatus
from relay_operator.engine.account import AccountWaiting
from relay_operator.engine.actions import Keep, Nothing, Wait
from relay_operator.engine.backoff import Backoff, RetryPolicy
from relay_operator.engine.flow import Turn
from relay_operator.engine.identity import Installation
from relay_operator.engine.queue import Priority
from relay_operator.engine.report import Return
from relay_operator.flows.batch.actions import Action, Record, Submit
from relay_operator.flows.batch.facts import BatchMemory, Facts
from relay_operator.flows.batch.flow import BatchFlow
from relay_operator.flows.batch.plan import BatchDemand, View
from relay_operator.flows.batch.report import report_of
from relay_operator.flows.batch.result import Paid, Result, WorkTroubled
from relay_operator.flows.batch.transitions import GIVE_UP
from tests.unit.flows.batch.acting import KEY
from tests.unit.flows.batch.examples import NOON, batch, part, seen, sent, status

LONGEST = timedelta(hours=1)


@pytest.mark.parametrize(
    ("after", "reason", "attempt"),
    [
        (timedelta(), Reason.OUTPUT_UNAVAILABLE, GIVE_UP),
        (timedelta(), Reason.WAITING_FOR_RETRY, LONGEST),
        (GIVE_UP, Reason.WAITING_FOR_RETRY, GIVE_UP + LONGEST),
    ],
    ids=["the output fails", "the cloud fails", "the cloud fails later"],
)
def test_the_last_attempt_at_an_output_is_made_when_the_deletion_stops_to_wait(
    after: timedelta, reason: Reason, attempt: timedelta
) -> None:
    nothing, policy = cast("Any", None), RetryPolicy(Backoff(3600, 3600), lambda: 1.0)
    flow = BatchFlow(nothing, nothing, nothing, policy, Installation(), 0.0, 3, lambda: 0.0)
    before = status(sent(), output=OutputStatus(begun_at=NOON), unpublished_since=NOON if after else None)
    obj, trouble = batch(status=before), WorkTroubled(reason, "later")
    view = View(demand=BatchDemand.DELETE)
    facts = Facts(KEY, obj, NOON, AccountWaiting(Reason.PAUSED, ""), view, before, came=trouble)
    turn = Turn(KEY, "uid-1", NOON, Priority.DELETE)
    told = flow.tell(turn, replace(facts, now=NOON + after), Record(), Nothing(), BatchMemory("uid-1"))
    assert told.next_attempt == NOON + attempt


def test_answers_that_fit_nowhere_wait_for_an_event_whatever_woke_the_batch() -> None:
    """Coming back at once, for ever, would leave no time to any other object."""
    nothing, before = cast("Any", None), status(sent())
    flow = BatchFlow(nothing, nothing, nothing, nothing, Installation(), 0.0, 3, lambda: 0.0)
    facts = Facts(KEY, batch(status=before), NOON, AccountWaiting(Reason.PAUSED, ""), View(misplaced=True), before)
    turn = Turn(KEY, "uid-1", NOON, Priority.EVENT)
    told = flow.tell(turn, facts, Wait(Reason.OUTPUT_TOO_LARGE), Nothing(), BatchMemory("uid-1"))
    assert (told.after, told.next_attempt, told.due) == (before, None, ())
    assert told.report is not None
    assert told.report.back is Return.NEVER


@pytest.mark.parametrize(("spec", "back"), [({}, Return.TRANSITION), ({"budget": {"maxCost": "1"}}, Return.STEADILY)])
def test_a_batch_whose_cost_has_a_limit_is_looked_at_steadily(spec: dict[str, Any], back: Return) -> None:
    told, waiting = status(sent()), part(2, inputFileId="file_1_2")
    obj = batch(status=told, **spec)
    facts = Facts(KEY, obj, NOON, AccountWaiting(Reason.PAUSED, ""), View(), told)
    passes: list[tuple[Action, Result]] = [(Keep(), Nothing()), (Submit(), Paid(waiting, seen("batch_1_2")))]
    for action, result in passes:
        report = report_of(facts, action, result, told, unreachable=False)
        assert report is not None
        assert (report.reason, report.back) == (Reason.RUNNING, back)
