"""What an object and its parts amount to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from relay_operator.api.inferencebatch import InferenceBatchStatus, InputStatus, OutputStatus, RequestCounts, Usage
from relay_operator.api.meta import CreateIntent, MalformedIntent
from relay_operator.flows.batch import predicates
from relay_operator.flows.batch.plan import BatchDemand, Holds, Phase, Round
from relay_operator.flows.batch.transitions import gives_up_at
from tests.unit.flows.batch.examples import NOON, TOKEN, batch, part, seen, sent, status

INTENT = CreateIntent(token=TOKEN, name="ns-nightly", attempt=1, spec_hash="", started_at=NOON)
RETRY_ONCE: dict[str, Any] = {"retryPolicy": {"maxAttempts": 2}}
LATER = NOON + timedelta(seconds=61)


@pytest.mark.parametrize(
    ("told", "intent", "phase"),
    [
        ({}, None, Phase.NEW),
        ({}, INTENT, Phase.ACTIVE),
        ({"create_token": TOKEN}, None, Phase.ACTIVE),
        ({"create_token": TOKEN, "output": OutputStatus()}, INTENT, Phase.ACTIVE),
        ({"create_token": TOKEN, "output": OutputStatus(begun_at=NOON)}, INTENT, Phase.PUBLISHING),
        ({"completion_time": NOON}, INTENT, Phase.FINISHED),
        ({"completion_time": NOON, "cleared": True}, INTENT, Phase.CLEARED),
    ],
)
def test_the_phase_is_what_is_written_down(told: dict[str, Any], intent: CreateIntent | None, phase: Phase) -> None:
    assert predicates.phase(batch(status=InferenceBatchStatus(**told)), intent, NOON) is phase


@pytest.mark.parametrize(
    ("told", "intent", "unsettled"),
    [
        (status(), INTENT, False),
        (status(), None, False),
        (status(create_token="another"), INTENT, True),
        (InferenceBatchStatus(), INTENT, True),
        (InferenceBatchStatus(), MalformedIntent("{"), True),
        (status(), MalformedIntent("{"), False),
        (status(sent(1), part(2, inputFileId="f")), INTENT, False),
        (status(sent(1), part(2, inputFileId="f", sentAt=NOON)), INTENT, True),
    ],
)
def test_a_create_is_settled_once_its_outcome_is_recorded(
    told: InferenceBatchStatus, intent: CreateIntent | MalformedIntent | None, *, unsettled: bool
) -> None:
    assert predicates.unsettled(told, intent) is unsettled


def test_its_time_to_live_begins_when_it_is_finished_and_cleared() -> None:
    done = InferenceBatchStatus(completion_time=NOON, cleared=True)
    mortal = batch(ttlSecondsAfterFinished=60, status=done)
    assert predicates.phase(mortal, INTENT, NOON + timedelta(seconds=59)) is Phase.CLEARED
    assert predicates.phase(mortal, INTENT, NOON + timedelta(seconds=60)) is Phase.EXPIRED
    assert predicates.phase(batch(status=done), INTENT, NOON + timedelta(days=999)) is Phase.CLEARED


def test_no_moment_of_a_mark_or_a_status_is_too_late_to_count_from() -> None:
    last = datetime.max.replace(tzinfo=UTC)
    told = status(start_time=last, completion_time=last, unpublished_since=last, cleared=True)
    spec = batch(ttlSecondsAfterFinished=1, activeDeadlineSeconds=1).spec
    moments = (predicates.expires_at(spec, told), predicates.deadline(spec, told), gives_up_at(told))
    assert moments == (last, last, last)


def test_what_people_ask_for() -> None:
    gone = {"metadata": batch().metadata.model_copy(update={"deletion_timestamp": NOON})}
    assert predicates.demand(batch()) is BatchDemand.EXIST
    assert predicates.demand(batch(suspend=True)) is BatchDemand.SUSPEND
    assert predicates.demand(batch(suspend=True).model_copy(update=gone)) is BatchDemand.DELETE
    assert predicates.demand(batch(deletionPolicy="Discard").model_copy(update=gone)) is BatchDemand.DELETE_DISCARDING
    assert predicates.demand(batch(deletionPolicy="Orphan").model_copy(update=gone)) is BatchDemand.DELETE_ORPHANING
    annotated = batch(annotations={"gpurelay.dev/abandon": "true"})
    assert predicates.demand(annotated) is BatchDemand.EXIST
    metadata = annotated.metadata.model_copy(update={"deletion_timestamp": NOON})
    assert predicates.demand(annotated.model_copy(update={"metadata": metadata})) is BatchDemand.DELETE_ABANDONING


ROUNDS: dict[str, tuple[InferenceBatchStatus, Round]] = {
    "without parts nothing is uploaded": (status(), Round.UNSENT),
    "a part without a file is uploaded": (status(sent(1), part(2)), Round.UNSENT),
    "a part without a batch is submitted": (status(sent(1), part(2, inputFileId="f")), Round.UNPAID),
    "one that failed before waits for its time": (
        status(sent(state="completed"), part(1, 2, inputFileId="f"), retry_time=NOON + timedelta(seconds=1)),
        Round.HELD,
    ),
    "as long as the longest pause lasts": (
        status(sent(state="completed"), part(1, 2, inputFileId="f"), retry_time=NOON + timedelta(seconds=361)),
        Round.HELD,
    ),
    "and for no time that was written while the clock was ahead": (
        status(sent(state="completed"), part(1, 2, inputFileId="f"), retry_time=NOON + timedelta(seconds=362)),
        Round.UNPAID,
    ),
    "and is submitted then": (
        status(sent(state="completed"), part(1, 2, inputFileId="f"), retry_time=NOON),
        Round.UNPAID,
    ),
    "one that runs is waited for": (status(sent(1, state="completed"), sent(2)), Round.SENT),
    "an unknown state is waited for": (status(sent(state="pondering")), Round.SENT),
    "all answered is over": (status(sent(state="completed", completed=10)), Round.OVER),
    "failures are sent again": (status(sent(state="completed", completed=9, failed=1)), Round.OVER_MORE),
    "what has no answer is sent again": (status(sent(state="expired", completed=4)), Round.OVER_MORE),
    "but not after the last attempt": (
        status(
            sent(state="completed", completed=9, failed=1),
            sent(1, 2, state="completed", records=1, failed=1),
            retried=1,
        ),
        Round.OVER,
    ),
    "suspend costs no attempt for what has no answer": (
        status(sent(1, 2, state="cancelled", completed=4), input=InputStatus(digest="", records=10), suspended=True),
        Round.OVER_MORE,
    ),
    "where nothing may be sent again it is over": (
        status(sent(state="completed", failed=10), exhausted=True, round=2),
        Round.OVER,
    ),
}


@pytest.mark.parametrize(("told", "expected"), ROUNDS.values(), ids=ROUNDS)
def test_what_the_round_lacks(told: InferenceBatchStatus, expected: Round) -> None:
    assert predicates.round_of(batch(**RETRY_ONCE).spec, told, NOON) is expected


@pytest.mark.parametrize(
    ("policy", "waits"),
    [
        ({}, [10, 20, 40, 80, 160, 320, 360, 360, 360]),
        ({"backoffSeconds": 100, "maxBackoffSeconds": 150}, [100, 150, 150]),
        ({"backoffSeconds": 5, "maxBackoffSeconds": 1}, [1, 1]),
    ],
)
def test_the_pause_before_each_further_attempt_is_twice_as_long(policy: dict[str, Any], waits: list[int]) -> None:
    spec = batch(retryPolicy=policy).spec
    found = [predicates.retry_time(spec, attempt, NOON) for attempt in range(2, 2 + len(waits))]
    assert found == [NOON + timedelta(seconds=wait) for wait in waits]


def test_a_pause_ends_in_a_whole_second_and_none_is_shorter_than_asked_for() -> None:
    ends = predicates.retry_time(batch().spec, 2, NOON + timedelta(milliseconds=1))
    assert ends == NOON + timedelta(seconds=11)
    assert predicates.retry_time(batch(retryPolicy={"backoffSeconds": 0}).spec, 2, NOON) is None


def test_every_record_counts_once_whatever_attempts_it_took() -> None:
    first = sent(1, 1, "completed", completed=7, failed=3)
    second = sent(1, 2, "completed", records=2, completed=1, failed=1)
    told = status(first, second, retried=2, input=InputStatus(digest="", records=10))
    assert predicates.counted(told) == RequestCounts(total=10, completed=8, failed=2)
    unread = status(first, second, retried=2)
    assert predicates.counted(unread).total == 10, "of a status that was rebuilt, the first round has all"


def test_counts_of_a_cloud_that_contradicts_itself_stay_within_the_total() -> None:
    odd = status(sent(completed=99, failed=99), input=InputStatus(digest="", records=10))
    assert predicates.counted(odd) == RequestCounts(total=10, completed=10, failed=0)


def test_no_number_of_the_cloud_is_larger_than_a_status_takes() -> None:
    huge = 10**30
    counts, usage = {"total": huge, "completed": huge, "failed": -huge}, {"cost_nano_usd": huge, "input_tokens": -huge}
    problems = {"data": [{"line": huge, "code": "c" * 900, "message": "m" * 9000}]}
    told = seen(request_counts=counts, usage=usage, errors=problems, status="s" * 900)
    parts = [sent(number, records=0) for number in range(1, 129)]
    after = predicates.refreshed(status(*parts), [(each, told) for each in parts])
    assert after == InferenceBatchStatus.model_validate_json(after.model_dump_json(by_alias=True))
    assert after.usage is not None
    assert 2**53 < after.usage.cost_nano_usd < 2**63
    assert after.request_counts is not None
    assert 2**53 < after.request_counts.total < 2**63


def test_no_sum_over_the_parts_is_larger_than_a_status_takes() -> None:
    edited = Usage(input_tokens=2**63 - 1, output_tokens=2**62, cost_nano_usd=1)
    assert predicates.spent(status(sent(1, usage=edited), sent(2, usage=edited))) == Usage(
        input_tokens=2**63 - 1, output_tokens=2**63 - 1, cost_nano_usd=2
    )


@pytest.mark.parametrize("field", ["attempt", "round", "failures"])
def test_a_number_of_a_status_that_only_people_can_have_written_is_refused(field: str) -> None:
    """The pause before an attempt doubles with each: one of billions would take all memory."""
    with pytest.raises(ValidationError, match="less than or equal to"):
        InferenceBatchStatus.model_validate({field: 10**12})


def test_what_the_cloud_says_is_mirrored() -> None:
    news = seen(
        state="completed",
        request_counts={"total": 10, "completed": 8, "failed": 2},
        usage={"input_tokens": 5, "output_tokens": 6, "cost_nano_usd": 1100},
        output_file_id="out",
        error_file_id="err",
    )
    before = status(sent())
    after = predicates.refreshed(before, [((before.parts or [])[0], news)])
    (mirrored,) = after.parts or []
    assert (mirrored.state, mirrored.completed, mirrored.failed) == ("completed", 8, 2)
    assert (mirrored.output_file_id, mirrored.error_file_id) == ("out", "err")
    assert after.usage == Usage(input_tokens=5, output_tokens=6, cost_nano_usd=1100)
    assert (after.id, after.batch_id, after.state) == ("batch_1_1", "batch_1_1", "completed")
    assert after.progress_percent == 80, "what failed may be sent again"
    assert after.input_file_id == "file_1_1"
    assert predicates.holds(after) is Holds.RESULTS


def test_progress_never_falls_over_the_rounds() -> None:
    read = InputStatus(digest="", records=10)
    first, second = sent(1, 1, "completed", completed=6, failed=4), sent(1, 2, records=3)
    course = [
        status(sent(completed=5, failed=2), input=read),
        status(first, input=read),
        status(first, input=read, round=2, attempt=2),
        status(first, second, input=read, retried=3),
        status(first, sent(1, 2, "completed", completed=1, failed=2, records=3), input=read, retried=3),
        status(first, sent(1, 2, completed=1, failed=2), sent(1, 3, completed=2), input=read, retried=5),
    ]
    assert [predicates.progress(each, predicates.counted(each)) for each in course] == [50, 60, 60, 70, 80, 100]


def test_what_the_cloud_found_wrong_is_told_with_its_lines() -> None:
    errors = {
        "data": [{"code": "model_not_found", "message": "No such model.", "line": 3}, {"message": None, "line": 0}]
    }
    before = status(sent())
    after = predicates.refreshed(before, [((before.parts or [])[0], seen(state="failed", errors=errors))])
    first, second = after.problems or []
    assert (first.line, first.code, first.message) == (3, "model_not_found", "No such model.")
    assert (second.line, second.code) == (None, "refused")
    assert after.status_reason == "No such model."
    ending = predicates.ending(batch().spec, after, NOON)
    assert ending is not None
    assert (ending.reason, ending.message) == ("BatchRefused", "No such model.")


def test_what_the_cloud_quotes_of_a_record_shows_no_secret() -> None:
    """Each record holds the authorization of the tool executor, as the Secret has it."""
    errors = {"data": [{"code": "bad", "message": 'authorization "Bearer CANARY" is refused', "line": 1}]}
    before = status(sent())
    after = predicates.refreshed(before, [((before.parts or [])[0], seen(state="failed", errors=errors))])
    assert [problem.message for problem in after.problems or []] == ['authorization "[redacted]" is refused']
    assert "CANARY" not in str(after.status_reason)


def test_a_batch_that_the_cloud_does_not_find_any_more_ends_it() -> None:
    ending = predicates.ending(batch().spec, status(sent(state=predicates.GONE)), NOON)
    assert ending is not None
    assert ending.reason == "ResultsLost"
    assert "batch_1_1" in ending.message


def test_a_deadline_counts_from_the_start_and_only_while_something_is_left_to_do() -> None:
    spec = batch(activeDeadlineSeconds=60).spec
    running = status(sent(), start_time=NOON)
    assert predicates.ending(spec, running, NOON + timedelta(seconds=59)) is None
    ending = predicates.ending(spec, running, NOON + timedelta(seconds=60))
    assert ending is not None
    assert ending.reason == "DeadlineExceeded"
    answered = status(sent(state="completed", completed=10), start_time=NOON)
    assert predicates.ending(spec, answered, LATER) is None
    assert predicates.ending(spec, status(sent()), LATER) is None, "suspended: no time runs"
    being_suspended = batch(activeDeadlineSeconds=60, suspend=True).spec
    assert predicates.ending(being_suspended, running, LATER) is None, "the cloud may take long to cancel it"


@pytest.mark.parametrize(
    ("suspend", "suspended", "state", "lacks"),
    [
        (False, None, "cancelled", Round.OVER),
        (False, True, "cancelled", Round.OVER_MORE),
        (True, None, "cancelled", Round.OVER_MORE),  # the process ended before it recorded the cancellation
        (True, None, "expired", Round.OVER),
    ],
)
def test_a_round_that_suspend_cut_off_goes_on_though_no_attempt_is_left(
    suspend: bool, suspended: bool | None, state: str, lacks: Round
) -> None:
    spec = batch(retryPolicy={"maxAttempts": 1}, suspend=suspend).spec
    cut = status(sent(state=state, completed=4), suspended=suspended)
    assert predicates.round_of(spec, cut, NOON) is lacks


def test_a_budget_is_over_all_rounds_and_only_while_something_is_left_to_pay() -> None:
    spec = batch(budget={"maxCostNanoUsd": 100}).spec
    paid: dict[str, Any] = {"usage": {"costNanoUsd": 60}}
    assert predicates.ending(spec, status(sent(**paid)), NOON) is None
    ending = predicates.ending(
        spec, status(sent(1, 1, "completed", failed=10, **paid), sent(1, 2, **paid), retried=10), NOON
    )
    assert ending is not None
    assert ending.reason == "BudgetExceeded"
    assert (
        predicates.ending(spec, status(sent(state="completed", completed=10, usage={"costNanoUsd": 900})), NOON) is None
    )


@pytest.mark.parametrize(
    ("dollars", "nano_usd"),
    [
        ("0.000000001", 1),
        ("0.10", 100_000_000),
        ("0.5", 500_000_000),
        ("3", 3_000_000_000),
        ("007.25", 7_250_000_000),
        ("999999.999999999", 999_999_999_999_999),
    ],
)
def test_a_budget_in_dollars_ends_it_at_exactly_that_cost(dollars: str, nano_usd: int) -> None:
    spec = batch(budget={"maxCost": dollars}).spec
    assert predicates.ending(spec, status(sent(usage={"costNanoUsd": nano_usd - 1})), NOON) is None
    ending = predicates.ending(spec, status(sent(usage={"costNanoUsd": nano_usd})), NOON)
    assert ending is not None
    assert ending.reason == "BudgetExceeded"


@pytest.mark.parametrize(
    ("policy", "failed", "refused"),
    [
        (None, 100, False),
        ({"maxFailedRecords": 0}, 1, True),
        ({"maxFailedRecords": 5}, 5, False),
        ({"maxFailedPercent": 10}, 10, False),
        ({"maxFailedPercent": 10}, 11, True),
        ({"maxFailedRecords": 50, "maxFailedPercent": 1}, 2, True),
    ],
)
def test_how_many_failures_are_too_many(policy: dict[str, int] | None, failed: int, refused: bool) -> None:
    spec = batch(failurePolicy=policy).spec
    counts = RequestCounts(total=100, completed=100 - failed, failed=failed)
    assert (predicates.too_many_failures(spec, counts) is not None) is refused


@pytest.mark.parametrize(
    ("nano_usd", "shown"),
    [
        (0, "0.00 USD"),
        (1, "0.000000001 USD"),
        (18_000_000, "0.018 USD"),
        (500_000_000, "0.50 USD"),
        (12_345_678_901, "12.34 USD"),
    ],
)
def test_a_price_reads_as_people_write_it(nano_usd: int, shown: str) -> None:
    assert predicates.dollars(nano_usd) == shown


def test_what_has_a_marker_and_no_batch_is_searched_for_and_never_submitted() -> None:
    told = status(sent(1), part(2, inputFileId="f", sentAt=NOON), part(3, inputFileId="g"))
    assert [each.part for each in predicates.unanswered(told)] == [2]
    following = predicates.unpaid(told)
    assert following is not None
    assert following.part == 3
    assert [each.part for each in predicates.live(told)] == [1]
