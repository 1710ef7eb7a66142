"""What is told of a batch that is finished or searched for, and why its records failed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

import pytest

from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.api.inferencebatch import Ending, FailureReason, OutputStatus, RequestCounts
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.account import AccountReady, AccountWaiting
from relay_operator.engine.actions import Keep, Nothing, Stall, Wait
from relay_operator.engine.report import Return
from relay_operator.flows.batch.actions import Action, Finish, Record
from relay_operator.flows.batch.facts import Facts
from relay_operator.flows.batch.plan import Phase, Sight, View
from relay_operator.flows.batch.report import outcome, report_of, why
from relay_operator.flows.batch.result import frequent
from relay_operator.records.results import Failure, Reasons
from tests.unit.flows.batch.examples import NOON, batch, status

WHERE = OutputStatus(answers="s3://b/output.jsonl", errors="s3://b/errors.jsonl")
COUNTS = RequestCounts(total=6, completed=4, failed=2)
WHY = [FailureReason(code="status_422", count=2)]


def test_complete_tells_how_many_failed_why_and_where_they_are() -> None:
    told = outcome(status(request_counts=COUNTS, failure_reasons=WHY, output=WHERE), Return.NEVER)
    assert told.message == (
        "4 of 6 records answered, 2 failed (status_422: 2); published to s3://b/output.jsonl; "
        "failures: s3://b/errors.jsonl"
    )
    assert [each.type for each in told.extra] == [ConditionType.COMPLETE]


def test_failed_tells_its_reason_first_and_then_those_of_its_records() -> None:
    ending = Ending(reason="TooManyFailures", message="2 of 6 records failed; failurePolicy allows 1")
    told = outcome(status(request_counts=COUNTS, failure_reasons=WHY, ending=ending), Return.NEVER)
    assert told.message == f"{ending.message}; records failed (status_422: 2)"
    assert outcome(status(ending=ending), Return.NEVER).message == ending.message


def test_failed_tells_a_reason_of_another_release_or_of_an_edited_mark_as_it_is() -> None:
    ending = Ending(reason="OfAnotherRelease", message="it is over")
    told = outcome(status(ending=ending), Return.NEVER)
    assert (told.reason, [(each.type, each.reason) for each in told.extra]) == (
        "OfAnotherRelease",
        [(ConditionType.FAILED, "OfAnotherRelease")],
    )


def test_the_most_frequent_reasons_are_shown_and_no_more_than_five() -> None:
    reasons = Reasons()
    for code, times in {"a": 1, "b": 3, "c": 2, "d": 1, "e": 1, "f": 1}.items():
        for _ in range(times):
            reasons.add(Failure(code, None))
    shown = frequent(reasons)
    assert [(reason.code, reason.count) for reason in shown] == [("b", 3), ("c", 2), ("a", 1), ("d", 1), ("e", 1)]
    assert why(status(failure_reasons=list(shown[:2]))) == " (b: 3, c: 2)"
    assert why(status()) == ""


@pytest.mark.parametrize("action", [Record(), Keep(), Finish()], ids=repr)
@pytest.mark.parametrize(
    ("ttl", "back"), [(None, Return.NEVER), (61, Return.NEVER), (60, Return.SOON), (0, Return.SOON)]
)
def test_a_batch_whose_time_went_by_while_it_was_cleared_is_looked_at_again(
    action: Action, ttl: int | None, back: Return
) -> None:
    done = status(completion_time=NOON, cleared=True, request_counts=COUNTS, output=WHERE)
    obj = batch(ttlSecondsAfterFinished=ttl)
    key, waiting = ObjectKey("InferenceBatch", "ns", "nightly"), AccountWaiting(Reason.WAITING_FOR_ACCOUNT, "")
    facts = Facts(key, obj, NOON + timedelta(seconds=60), waiting, View(phase=Phase.FINISHED), obj.status)
    told = report_of(facts, action, Nothing(), done, unreachable=False)
    assert told is not None
    assert told.back is back


@pytest.mark.parametrize(
    ("action", "reason", "trouble"),
    [
        (Wait(Reason.SEARCHING), Reason.SEARCHING, ConditionType.RECONCILING),
        (Stall(Reason.CREATE_OUTCOME_UNKNOWN), Reason.CREATE_OUTCOME_UNKNOWN, ConditionType.STALLED),
    ],
    ids=["the operator finds out", "a person has to"],
)
def test_only_what_a_person_must_find_out_has_the_reason_that_an_alert_counts(
    action: Action, reason: Reason, trouble: ConditionType
) -> None:
    obj, nobody = batch(), cast("Any", None)
    ready = AccountReady(ObjectKey("CloudAccount", "ns", "default"), nobody, "org-1", nobody, False, False)
    key = ObjectKey("InferenceBatch", "ns", "nightly")
    facts = Facts(key, obj, NOON, ready, View(sight=Sight.UNSURE), obj.status, note="the list does not show it yet")
    told = report_of(facts, action, Nothing(), obj.status, unreachable=False)
    assert told is not None
    assert (told.reason, told.trouble) == (reason, trouble)
    assert [(each.type, each.reason) for each in told.extra] == [(ConditionType.CREATE_OUTCOME_UNKNOWN, reason)]
