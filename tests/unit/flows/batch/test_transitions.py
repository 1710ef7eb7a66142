"""What a pass writes down."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from relay_client.errors import BadRequest, NotFound, RateLimited
from relay_operator.api.conditions import Reason
from relay_operator.api.inferencebatch import (
    Ending,
    FailureReason,
    InferenceBatchStatus,
    InputStatus,
    OutputStatus,
    PartStatus,
    Problem,
    RequestCounts,
    Usage,
)
from relay_operator.api.inferencebatchschedule import SCHEDULE_LABEL
from relay_operator.api.meta import CreateIntent
from relay_operator.engine.account import AccountWaiting
from relay_operator.engine.actions import Keep, Nothing, Wait
from relay_operator.engine.identity import identity_of
from relay_operator.flows.batch import actions
from relay_operator.flows.batch.actions import Action
from relay_operator.flows.batch.facts import Facts
from relay_operator.flows.batch.marks import mark_of, published_by
from relay_operator.flows.batch.names import TAG, PartTag
from relay_operator.flows.batch.plan import BatchDemand, View
from relay_operator.flows.batch.result import (
    Begun,
    Cleared,
    Hindered,
    NotPaid,
    Paid,
    Published,
    Result,
    Unknown,
    Uploaded,
    WorkRefused,
    WorkResult,
    WorkTroubled,
)
from relay_operator.flows.batch.transitions import GIVE_UP, after
from relay_operator.records.problems import ProblemCode
from relay_wire.batches import Batch
from tests.unit.flows.batch.examples import NOON, TOKEN, batch, part, seen, sent, status

INTENT = CreateIntent(
    token=TOKEN, name="ns-nightly", attempt=1, spec_hash="", started_at=NOON, account="CloudAccount/default"
)
PUBLISHING = OutputStatus(begun_at=NOON)
READ = InputStatus(digest="d", records=10)


def facts(
    before: InferenceBatchStatus, came: WorkResult | None = None, *, deleting: bool = False, **spec: Any
) -> Facts:
    """A pass over a batch with this status."""
    obj = batch(status=before, **spec)
    if deleting:
        metadata = obj.metadata.model_copy(update={"deletion_timestamp": NOON})
        obj = obj.model_copy(update={"metadata": metadata})
    account = AccountWaiting(Reason.PAUSED, "")
    view = View(demand=BatchDemand.DELETE if deleting else BatchDemand.EXIST)
    return Facts(obj.key, obj, NOON, account, view, before, INTENT, came=came)


def led_to(given: Facts, action: Action, result: Result | None = None) -> InferenceBatchStatus:
    return after(given, action, result or Nothing())


def recorded(before: InferenceBatchStatus, came: WorkResult, **told: Any) -> InferenceBatchStatus:
    return led_to(facts(before, came, **told), actions.Record())


def tagged(number: int, of: int, of_round: int = 1, attempt: int = 1, **told: Any) -> Batch:
    tag = PartTag(TOKEN, of_round, number, of, attempt)
    return seen(f"batch_{of_round}_{number}", **({"metadata": {TAG: str(tag)}} | told))


def test_what_was_sent_is_known_by_its_intent_from_the_first_write() -> None:
    begun = led_to(facts(InferenceBatchStatus(problems=None)), actions.Begin(), Begun(INTENT))
    assert (begun.create_token, begun.cloud_name, begun.round, begun.attempt) == (TOKEN, "ns-nightly", 1, 1)
    assert begun.account is not None
    assert begun.start_time == NOON


def test_a_paid_batch_has_its_id_and_its_marker() -> None:
    waiting = part(inputFileId="f")
    paid = led_to(facts(status(waiting)), actions.Submit(), Paid(waiting, seen("b", "validating")))
    (row,) = paid.parts or []
    assert (row.batch_id, row.state, row.sent_at, paid.id) == ("b", "validating", NOON, "b")


@pytest.mark.parametrize(
    ("first", "cut_off"),
    [(part(1), None), (sent(1, state="cancelled"), True)],
    ids=["before it began", "in the middle of a round"],
)
def test_only_what_suspend_cut_off_has_an_attempt_beyond_the_last(first: PartStatus, cut_off: bool | None) -> None:
    waiting = part(2, inputFileId="f")
    rested = status(first, waiting, suspended=True)
    resumed = led_to(facts(rested), actions.Submit(), Paid(waiting, seen("b")))
    assert resumed.suspended is cut_off


def test_an_answer_that_is_lost_leaves_the_marker_and_a_refusal_leaves_none() -> None:
    waiting, error = part(inputFileId="f"), RateLimited("create_batch", "later")
    (lost,) = led_to(facts(status(waiting)), actions.Submit(), Unknown(waiting, error)).parts or []
    assert (lost.sent_at, lost.batch_id) == (NOON, None)
    refused = led_to(facts(status(waiting)), actions.Submit(), NotPaid(waiting, error))
    assert refused == status(waiting)


def test_a_create_that_is_wrong_ends_it_and_a_file_that_vanished_is_uploaded_again() -> None:
    waiting = part(inputFileId="f")
    wrong = BadRequest("create_batch", "no such endpoint", status=400)
    ended = led_to(facts(status(waiting)), actions.Submit(), NotPaid(waiting, wrong))
    assert ended.ending == Ending(reason="BatchRefused", message="no such endpoint")
    gone = NotPaid(waiting, NotFound("create_batch", "no file"), vanished=True)
    (row,) = led_to(facts(status(waiting)), actions.Submit(), gone).parts or []
    assert row.input_file_id is None


def test_a_status_that_was_lost_is_rebuilt_with_the_parts_that_were_not_created() -> None:
    found = (tagged(1, 3, request_counts={"total": 4}, input_file_id="f1"), tagged(3, 3, state="completed"))
    given = replace(facts(InferenceBatchStatus()), found=found)
    rebuilt = led_to(given, actions.Adopt())
    assert [(row.part, row.batch_id, row.state) for row in rebuilt.parts or ()] == [
        (1, "batch_1_1", "in_progress"),
        (2, None, None),
        (3, "batch_1_3", "in_progress"),  # the row may lack what was paid for: it is read once more
    ]
    assert (rebuilt.create_token, rebuilt.round, rebuilt.attempt) == (TOKEN, 1, 1)
    assert (rebuilt.parts or [])[0].input_file_id == "f1"
    assert rebuilt.start_time == NOON


def test_a_batch_that_has_ended_when_it_is_found_is_read_once_more() -> None:
    lost = part(inputFileId="f", sentAt=NOON)
    given = replace(facts(status(lost)), found=(tagged(1, 1, state="completed"),))
    found = led_to(given, actions.Adopt())
    answered = led_to(facts(status(lost)), actions.Submit(), Paid(lost, tagged(1, 1, state="completed")))
    assert [(row.batch_id, row.state) for row in (*(found.parts or ()), *(answered.parts or ()))] == [
        ("batch_1_1", "in_progress"),
        ("batch_1_1", "in_progress"),
    ]


def test_a_status_that_is_older_than_the_batches_is_rebuilt_from_them() -> None:
    restored = status(part(inputFileId="f"), input=READ)
    given = replace(facts(restored), found=(tagged(1, 1), tagged(1, 1, 2, 2)))
    rebuilt = led_to(given, actions.Adopt())
    assert [(row.round, row.batch_id) for row in rebuilt.parts or ()] == [(1, "batch_1_1"), (2, "batch_2_1")]
    assert (rebuilt.round, rebuilt.attempt, rebuilt.input) == (2, 2, READ)


@pytest.mark.parametrize("before", [status(sent(1), part(2, inputFileId="f")), InferenceBatchStatus()])
@pytest.mark.parametrize("late_first", [True, False])
def test_of_two_batches_of_one_part_the_late_one_that_was_ended_is_not_its_own(
    before: InferenceBatchStatus, *, late_first: bool
) -> None:
    late = tagged(1, 2, state="cancelled").model_copy(update={"id": "batch_late"})
    both = (late, tagged(1, 2)) if late_first else (tagged(1, 2), late)
    rebuilt = led_to(replace(facts(before), found=(*both, tagged(2, 2))), actions.Adopt())
    assert [row.batch_id for row in rebuilt.parts or ()] == ["batch_1_1", "batch_1_2"]
    assert rebuilt.suspended is None


@pytest.mark.parametrize("late_state", ["in_progress", "completed"])
def test_of_two_batches_of_one_part_that_which_status_has_stays_its_own(late_state: str) -> None:
    late = tagged(1, 2, state=late_state).model_copy(update={"id": "batch_late"})
    found = (tagged(1, 2, state="cancelled"), late, tagged(2, 2))
    rebuilt = led_to(replace(facts(status(sent(1), part(2, inputFileId="f"))), found=found), actions.Adopt())
    assert [row.batch_id for row in rebuilt.parts or ()] == ["batch_1_1", "batch_1_2"]


def test_a_batch_that_status_has_is_not_forgotten_though_the_list_lacks_it() -> None:
    before = status(sent(1, digest="d"), sent(2, state="completed", completed=10), part(3, inputFileId="f"))
    rebuilt = led_to(replace(facts(before), found=(tagged(1, 3), tagged(3, 3))), actions.Adopt())
    assert [row.batch_id for row in rebuilt.parts or ()] == ["batch_1_1", "batch_1_2", "batch_1_3"]
    assert (rebuilt.parts or [])[:2] == (before.parts or [])[:2]
    assert rebuilt.round == 1


def test_a_round_that_suspend_cut_off_may_go_on_though_the_list_lacks_the_cancelled_batch() -> None:
    before = status(sent(1, state="cancelled"), part(2, inputFileId="f"), suspended=True)
    rebuilt = led_to(replace(facts(before), found=(tagged(2, 2),)), actions.Adopt())
    assert ([row.batch_id for row in rebuilt.parts or ()], rebuilt.suspended) == (["batch_1_1", "batch_1_2"], True)


def test_a_round_that_status_has_is_not_forgotten_though_the_list_lacks_it() -> None:
    before = status(sent(1, state="completed"), sent(1, 2), part(2, 2, inputFileId="f"), attempt=3)
    rebuilt = led_to(replace(facts(before), found=(tagged(2, 2),)), actions.Adopt())
    assert [row.batch_id for row in rebuilt.parts or ()] == ["batch_1_1", "batch_1_2", "batch_2_1", None]
    assert (rebuilt.round, rebuilt.attempt, (rebuilt.parts or [])[3].input_file_id) == (2, 3, "f")


@pytest.mark.parametrize(("state", "suspended"), [("cancelled", True), ("cancelling", True), ("expired", None)])
def test_a_rebuilt_round_that_was_cancelled_may_go_on(state: str, suspended: bool | None) -> None:
    rebuilt = led_to(replace(facts(InferenceBatchStatus()), found=(tagged(1, 1, state=state),)), actions.Adopt())
    assert rebuilt.suspended is suspended


@pytest.mark.parametrize("action", [actions.Cancel(), Wait(Reason.CANCELLING)])
def test_a_suspension_is_recorded_with_the_cancellation_or_while_that_takes(action: Action) -> None:
    running = status(sent(), start_time=NOON)
    by_suspend = replace(facts(running), view=View(demand=BatchDemand.SUSPEND))
    assert led_to(by_suspend, action).suspended is True
    ending = Ending(reason="DeadlineExceeded", message="late")
    assert led_to(replace(by_suspend, ending=ending), action).suspended is None
    assert led_to(facts(running, deleting=True), action).suspended is None


@pytest.mark.parametrize(("failed", "attempt"), [(0, 1), (2, 2)])
def test_a_round_that_suspend_cut_off_is_an_attempt_only_of_what_failed(failed: int, attempt: int) -> None:
    cut = status(sent(state="cancelled", completed=4, failed=failed), suspended=True, input=READ)
    again = led_to(facts(cut), actions.Again())
    assert (again.round, again.attempt, again.only_unanswered) == (2, attempt, None)


@pytest.mark.parametrize(
    ("first", "cut_off"),
    [(part(1, inputFileId="f"), None), (sent(1, state="cancelled", completed=4), True)],
    ids=["nothing of it ran", "some of it was cut off"],
)
def test_records_that_suspend_cut_off_go_on_though_another_part_is_uploaded_again(
    first: PartStatus, cut_off: bool | None
) -> None:
    rested = status(first, part(2), suspended=True)
    again = recorded(rested, Uploaded((first, part(2, inputFileId="again")), 20, "d"))
    assert again.suspended is cut_off


def test_a_later_round_is_rebuilt_with_the_rounds_before_it() -> None:
    found = (tagged(1, 1, 2, 2), tagged(1, 1, state="completed"))
    rebuilt = led_to(replace(facts(InferenceBatchStatus()), found=found), actions.Adopt())
    assert [(row.round, row.part) for row in rebuilt.parts or ()] == [(1, 1), (2, 1)]
    assert (rebuilt.round, rebuilt.attempt, rebuilt.id) == (2, 2, "batch_2_1")


def test_a_batch_that_was_found_belongs_to_the_part_it_was_made_for() -> None:
    lost = part(2, inputFileId="f", sentAt=NOON)
    given = replace(facts(status(sent(1), lost)), found=(tagged(2, 2),))
    rows = led_to(given, actions.Adopt()).parts or []
    assert [(row.part, row.batch_id) for row in rows] == [(1, "batch_1_1"), (2, "batch_1_2")]


def test_what_is_surely_absent_may_be_sent() -> None:
    (row,) = led_to(facts(status(part(sentAt=NOON))), actions.Close()).parts or []
    assert row.sent_at is None
    opened = led_to(facts(InferenceBatchStatus()), actions.Close())
    assert (opened.create_token, opened.round) == (TOKEN, 1)


def test_uploads_become_parts_of_their_round() -> None:
    made_for = identity_of(batch().metadata, "", "org-1", "inference")
    first = recorded(status(), Uploaded((part(inputFileId="f"),), 10, "digest", made_for=made_for))
    assert first.identity == made_for  # in whose cloud the files are
    assert first.input == InputStatus(digest="digest", records=10)
    assert [row.input_file_id for row in first.parts or ()] == ["f"]
    done = sent(state="completed", completed=8, failed=2)
    again = recorded(
        status(done, round=2, attempt=2, input=READ), Uploaded((part(1, 2, records=2, inputFileId="g"),), 2, retried=2)
    )
    assert [(row.round, row.records) for row in again.parts or ()] == [(1, 10), (2, 2)]
    assert (again.retried, again.input) == (2, READ)
    assert again.request_counts == RequestCounts(total=10, completed=8, failed=0)


def test_records_that_failed_wait_and_what_has_no_answer_does_not() -> None:
    before = status(sent(state="completed", completed=8, failed=2), round=2, attempt=2, input=READ)
    why = (FailureReason(code="status_503", count=2),)
    held = recorded(before, Uploaded((part(1, 2, records=2, inputFileId="g"),), 2, retried=2, reasons=why))
    assert held.retry_time == NOON + timedelta(seconds=10)
    assert held.failure_reasons == list(why)
    at_once = recorded(before, Uploaded((part(1, 2, records=2, inputFileId="g"),), 2, retried=0))
    assert at_once.retry_time is None


def test_the_pause_is_over_with_the_first_batch_and_with_the_publication() -> None:
    waiting = part(1, 2, inputFileId="g")
    held = status(sent(state="completed"), waiting, retry_time=NOON)
    assert led_to(facts(held), actions.Submit(), Paid(waiting, seen("b"))).retry_time is None
    assert led_to(facts(held), actions.BeginPublication()).retry_time is None


def test_a_file_that_is_uploaded_another_time_counts_no_failure_twice_and_waits_for_nothing() -> None:
    vanished = part(1, 2, records=2)
    before = status(sent(state="completed", completed=8, failed=2), vanished, attempt=2, input=READ, retried=2)
    again = recorded(before, Uploaded((part(1, 2, records=2, inputFileId="h"),), 2, retried=2))
    assert (again.retried, again.retry_time) == (2, None)
    assert [row.input_file_id for row in again.parts or ()] == ["file_1_1", "h"]


def test_uploads_that_were_written_down_already_change_nothing() -> None:
    came = Uploaded((part(1, 2, records=2, inputFileId="g"),), 2, retried=2)
    once = recorded(status(sent(state="completed", completed=8, failed=2), round=2, attempt=2, input=READ), came)
    assert recorded(once, came) == once


def test_a_round_with_nothing_to_send_is_the_end() -> None:
    assert recorded(status(sent(state="completed"), round=2), Uploaded((), 0)).exhausted is True


def test_another_round_is_another_attempt_until_they_are_used_up() -> None:
    more = led_to(facts(status(sent(state="completed", failed=1))), actions.Again())
    assert (more.round, more.attempt, more.only_unanswered) == (2, 2, None)
    last = led_to(facts(status(sent(state="cancelled"), attempt=3, suspended=True)), actions.Again())
    assert (last.round, last.attempt, last.only_unanswered) == (2, 3, True)
    assert last.start_time == NOON, "resumed, its deadline counts anew"


def test_what_was_published_whole_is_complete() -> None:
    counts = RequestCounts(total=10, completed=9, failed=1)
    done = recorded(
        status(sent(), output=PUBLISHING, input=READ), Published(OutputStatus(lines=10), counts, 0, 0, NOON)
    )
    assert (done.completion_time, done.ending, done.request_counts) == (NOON, None, counts)
    assert done.output == OutputStatus(begun_at=NOON, lines=10)
    assert done.cleared is None, "the cloud's files go only after this is written"


@pytest.mark.parametrize(
    ("unanswered", "lost", "failed", "reason"),
    [(1, 0, 0, "ResultsLost"), (0, 1, 0, "ResultsLost"), (0, 0, 3, "TooManyFailures")],
)
def test_what_was_published_and_is_less_than_asked_for_says_so(
    unanswered: int, lost: int, failed: int, reason: str
) -> None:
    counts = RequestCounts(total=10, completed=10 - failed - unanswered, failed=failed)
    came = Published(OutputStatus(), counts, unanswered, lost, NOON)
    done = recorded(status(sent(), output=PUBLISHING), came, failurePolicy={"maxFailedRecords": 2})
    assert done.ending is not None
    assert done.ending.reason == reason


def test_answers_that_could_not_be_published_are_said_to_stay_in_the_cloud() -> None:
    problem = Problem(line=3, code=ProblemCode.LINE_TOO_LONG, message="in the output file of part 1, round 1")
    came = Published(OutputStatus(), RequestCounts(total=10, completed=9), 1, 0, NOON, problems=(problem,))
    done = recorded(status(sent(), output=PUBLISHING), came)
    assert done.ending is not None
    assert done.ending.message.endswith("(status.problems): the files with results stay there (status.parts)")


def test_the_reason_of_an_end_outlives_its_publication() -> None:
    deadline = Ending(reason="DeadlineExceeded", message="late")
    came = Published(OutputStatus(), RequestCounts(total=10, completed=2), 8, 0, NOON, ending=deadline)
    done = recorded(status(sent(), output=PUBLISHING, ending=deadline), came)
    assert done.ending == deadline


def test_what_was_published_before_status_was_lost_is_told_as_it_was() -> None:
    ended = Ending(reason="DeadlineExceeded", message="late")
    counts, usage = RequestCounts(total=10, completed=9), Usage(cost_nano_usd=10**9)
    came = Published(OutputStatus(answers="a", lines=9), counts, 1, 0, NOON, ending=ended, usage=usage)
    before = published_by("t0ken", mark_of("t0ken", came))
    assert before is not None
    later = led_to(replace(facts(status(), before), now=NOON + timedelta(hours=1)), actions.Record())
    assert (later.completion_time, later.ending, later.cost) == (NOON, ended, "1.00 USD")
    assert (later.request_counts, later.usage) == (counts, usage)
    assert later.output is not None
    assert (later.output.answers, later.output.lines) == ("a", 9)


@pytest.mark.parametrize("reason", ["DeadlineExceeded", "ResultsLost"])
def test_a_complete_batch_stays_complete_whatever_its_rebuilt_status_made_of_it(reason: str) -> None:
    came = Published(OutputStatus(answers="a", lines=10), RequestCounts(total=10, completed=10), 0, 0, NOON)
    late = status(sent(), output=PUBLISHING, ending=Ending(reason=reason, message="taken for unfinished"))
    assert recorded(late, came).ending is None


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"token":"t0ken"}'])
def test_what_is_no_mark_of_this_batch_tells_nothing(text: str) -> None:
    assert published_by("t0ken", text) is None
    came = Published(OutputStatus(), RequestCounts(), 0, 0, NOON)
    assert published_by("another", mark_of("t0ken", came)) is None


def test_bad_input_ends_it_and_a_refused_output_keeps_the_clouds_files() -> None:
    refused = recorded(status(), WorkRefused(Reason.INPUT_INVALID, "line 2: not JSON"))
    assert refused.ending == Ending(reason="InputInvalid", message="line 2: not JSON")
    assert refused.completion_time is None, "what was uploaded is still to be cleared"
    kept = recorded(status(sent(), output=PUBLISHING), WorkRefused(Reason.RESULTS_LOST, "lost"))
    assert (kept.completion_time, kept.cleared) == (NOON, True)
    hindered = led_to(
        facts(status(sent())), actions.BeginPublication(), Hindered(WorkRefused(Reason.OUTPUT_UNAVAILABLE, "going"))
    )
    assert hindered.ending == Ending(reason="OutputUnavailable", message="going")
    assert hindered.cleared is True


@pytest.mark.parametrize(
    ("labels", "again"),
    [
        ({}, "delete this batch, and apply it again"),
        ({SCHEDULE_LABEL: "nightly"}, "correct output in the schedule's batchTemplate, for the next batch"),
    ],
)
def test_an_output_that_is_taken_before_anything_is_paid_says_how_to_get_answers(
    labels: dict[str, str], again: str
) -> None:
    given = facts(status(), WorkRefused(Reason.OUTPUT_EXISTS, "answers exists"))
    metadata = given.obj.metadata.model_copy(update={"labels": labels})
    refused = led_to(replace(given, obj=given.obj.model_copy(update={"metadata": metadata})), actions.Record())
    assert refused.ending is not None
    assert refused.ending.message == f"answers exists; nothing was paid: {again}"


@pytest.mark.parametrize("reason", [Reason.OUTPUT_TOO_LARGE, Reason.OUTPUT_EXISTS])
def test_paid_answers_that_cannot_go_where_they_should_wait_for_another_place_but_not_while_deleting(
    reason: Reason,
) -> None:
    trouble, publishing = WorkTroubled(reason, "name another place", stalled=True), status(sent(), output=PUBLISHING)
    waiting = recorded(publishing, trouble)
    assert (waiting.output, waiting.ending, waiting.completion_time) == (None, None, None)
    assert waiting.parts == publishing.parts
    deleted = recorded(publishing, trouble, deleting=True)
    assert (deleted.cleared, deleted.ending) == (True, Ending(reason=reason, message="name another place"))
    begins = led_to(facts(status(sent()), deleting=True), actions.BeginPublication(), Hindered(trouble))
    assert begins.cleared is True


UNWRITABLE = WorkTroubled(Reason.OUTPUT_UNAVAILABLE, "forbidden", stalled=True)
BUSY = WorkTroubled(Reason.WAITING_FOR_RETRY, "too many requests")


def test_trouble_is_no_end() -> None:
    publishing = status(sent(), output=PUBLISHING)
    assert recorded(publishing, UNWRITABLE) == publishing
    assert led_to(facts(status(sent())), actions.BeginPublication(), Hindered(UNWRITABLE)) == status(sent())


@pytest.mark.parametrize("begun", [True, False])
def test_a_deletion_waits_for_the_output_from_its_first_failure_no_longer_than_agreed(begun: bool) -> None:
    before = status(sent(), output=PUBLISHING if begun else None)

    def failed(before: InferenceBatchStatus, after: timedelta, came: WorkTroubled = UNWRITABLE) -> InferenceBatchStatus:
        given = replace(facts(before, came if begun else None, deleting=True), now=NOON + after)
        if begun:
            return led_to(given, actions.Record())
        return led_to(given, actions.BeginPublication(), Hindered(came))

    cancelled_slowly, shortly = timedelta(hours=1), timedelta(seconds=1)
    waiting = failed(before, cancelled_slowly)
    assert (waiting.completion_time, waiting.unpublished_since) == (None, NOON + cancelled_slowly)
    last = cancelled_slowly + GIVE_UP
    assert failed(waiting, last - shortly) == waiting
    assert failed(waiting, last).cleared is True
    assert failed(waiting, last, BUSY) == waiting, "the cloud's trouble says nothing about the output"
    assert failed(before, last, BUSY) == before


def test_the_rest_is_written_as_it_was_decided() -> None:
    ending = Ending(reason="BudgetExceeded", message="spent")
    assert led_to(replace(facts(status(sent())), ending=ending), actions.End()).ending == ending
    rested = led_to(facts(status(sent(), start_time=NOON)), actions.Rest())
    assert (rested.suspended, rested.start_time) == (True, None)
    begun = led_to(facts(status(sent(), suspended=True)), actions.BeginPublication())
    assert (begun.output, begun.suspended) == (PUBLISHING, None)
    deleted = led_to(facts(status(), deleting=True), actions.Finish())
    assert deleted.ending is not None
    assert (deleted.ending.reason, deleted.completion_time) == ("Deleting", NOON)
    assert recorded(status(completion_time=NOON), Cleared()).cleared is True
    resumed = led_to(facts(status(suspended=True)), actions.Start(actions.Work.SEND))
    assert resumed.start_time == NOON
    assert led_to(facts(status(sent())), Keep()) == status(sent())
