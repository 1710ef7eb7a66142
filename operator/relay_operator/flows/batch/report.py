"""What the status says about a batch, and when to come back. Pure."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, Literal, assert_never

from relay_client import errors
from relay_client.errors import CloudError, clause
from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.api.inferencebatch import Ending, InferenceBatchStatus
from relay_operator.api.meta import rfc3339
from relay_operator.engine.account import AccountReady, AccountRefused, AccountWaiting
from relay_operator.engine.actions import Keep, Stall, Wait
from relay_operator.engine.conditions import Wanted
from relay_operator.engine.report import (
    Report,
    RetryKind,
    Return,
    Trouble,
    blind,
    outdated,
    paused,
    refused,
    unfunded,
    unknown,
    without_account,
)
from relay_operator.flows.batch import actions, predicates
from relay_operator.flows.batch.actions import Action, Work
from relay_operator.flows.batch.facts import Facts
from relay_operator.flows.batch.plan import UNSEEN
from relay_operator.flows.batch.result import (
    CancelRefused,
    Hindered,
    NotPaid,
    Paid,
    Result,
    Unknown,
    WorkTroubled,
    no_access,
)
from relay_operator.flows.batch.room import doubt
from relay_operator.flows.batch.transitions import is_final

_ON_THE_WAY: Final = ConditionType.RECONCILING
_UNPAID: Final = "the account's balance is below the cloud's floor: records wait until there are funds"
_READING: Final = "the records are being read, checked and uploaded"
_TALKS: Final[dict[type[Action], tuple[Literal["True", "False"], Reason, str]]] = {
    actions.Begin: ("False", Reason.UPLOADING, _READING),
    actions.Close: ("False", Reason.UPLOADING, "it was never created; it is sent now"),
    actions.Again: ("True", Reason.RETRYING, "records are sent again"),
    actions.BeginPublication: ("True", Reason.PUBLISHING, "the answers are being published"),
}
"""Actions that are followed by another step at once: Ready, reason and message."""


def report_of(
    facts: Facts, action: Action, result: Result, status: InferenceBatchStatus, *, unreachable: bool
) -> Report | None:
    """What to write, where `status` is the result of the pass; None leaves the conditions as they are."""
    match result:
        case Paid():
            return _running(status, _again(facts))
        case Unknown(_, error):
            text = f"{error}; finding out whether the batch was created"
            return unknown(Reason.CREATE_OUTCOME_UNKNOWN, text, Return.SOON)
        case NotPaid(_, error, vanished):
            return _not_paid(error, vanished=vanished)
        case CancelRefused(error):
            return _hindered_by(error)
        case Hindered() if status.completion_time is not None:
            return _finished(facts, status)
        case Hindered(WorkTroubled() as came):
            return _troubled(came)
        case _:
            return _decided(facts, action, status, unreachable=unreachable)


def _decided(facts: Facts, action: Action, status: InferenceBatchStatus, *, unreachable: bool) -> Report | None:
    match action:
        case Wait(reason):
            return _waiting(facts, reason, unreachable=unreachable)
        case Stall(reason):
            return _stalled(facts, reason)
        case actions.Start() if facts.obj.status.failures:
            return None  # the last error stays until something succeeds
        case actions.Start(work):
            return _working(work, status)
        case actions.Record():
            return _recorded(facts, status)
        case actions.Cancel() | actions.End():
            report = _ending(facts, Return.SHORTLY if isinstance(action, actions.Cancel) else Return.SOON)
            return replace(report, unseen=facts.view.sight in UNSEEN)
        case actions.Rest():
            return _suspended()
        case actions.Finish() | Keep() if status.completion_time is not None:
            return _finished(facts, status)
        case actions.Adopt() | Keep():
            report = _running(status, Return.SOON if isinstance(action, actions.Adopt) else _again(facts))
            return _unpaid(report) if facts.unfunded else report
        case _:
            return _next(action)


def _again(facts: Facts) -> Return:
    return Return.TRANSITION if facts.obj.spec.budget is None else Return.STEADILY


def _held(status: InferenceBatchStatus) -> Report:
    """The report between two attempts; the reconciler comes back when the pause ends."""
    at = "" if status.retry_time is None else f" at {rfc3339(status.retry_time)}"
    text = f"records that failed{why(status)} are sent again{at}, attempt {status.attempt}"
    return Report("True", None, Reason.RETRYING, text, Return.NEVER)


def _next(action: Action) -> Report | None:
    if type(action) not in _TALKS:
        return None
    ready, reason, message = _TALKS[type(action)]
    return Report(ready, None if ready == "True" else _ON_THE_WAY, reason, message, Return.SOON)


def _running(status: InferenceBatchStatus, back: Return) -> Report:
    counts = status.request_counts
    told = "" if counts is None else f": {counts.completed} of {counts.total} records answered, {counts.failed} failed"
    return Report("True", None, Reason.RUNNING, f"the cloud says {status.state}{told}", back)


def _unpaid(report: Report) -> Report:
    """The report on what runs in the cloud, and waits there for funds."""
    exceeded = Wanted(ConditionType.BUDGET_EXCEEDED, "True", Reason.BALANCE_EXHAUSTED, _UNPAID)
    return replace(report, message=f"{clause(report.message)}; {_UNPAID}", extra=(exceeded,))


def _not_paid(error: CloudError, *, vanished: bool) -> Report:
    if vanished:
        text = "the cloud does not have the uploaded file any more; it is uploaded again"
        return Report("False", _ON_THE_WAY, Reason.UPLOADING, text, retry=RetryKind.QUICK)
    if is_final(error.status):
        return Report("False", ConditionType.STALLED, Reason.BATCH_REFUSED, error.message, Return.SOON)
    return _hindered_by(error)


def _hindered_by(error: CloudError) -> Report:
    if isinstance(error, errors.PaymentRequired):
        return unfunded(refused(error))
    if isinstance(error, errors.NotFound):
        came = no_access(error)
        return Report("False", ConditionType.STALLED, came.reason, came.message, retry=RetryKind.SLOW)
    return refused(error)


def _troubled(came: WorkTroubled) -> Report:
    reason, message = came.reason, came.message
    if reason is Reason.OUTPUT_TOO_LARGE:  # the result would be the same until the spec changes, which wakes the object
        return Report("False", ConditionType.STALLED, reason, message, Return.NEVER)
    trouble: Trouble = ConditionType.STALLED if came.stalled else ConditionType.RECONCILING
    retry = RetryKind.ADVISED if came.retry_after is not None else RetryKind.QUICK
    return Report("False", trouble, reason, message, retry=retry, retry_after=came.retry_after)


def _waiting(facts: Facts, reason: Reason, *, unreachable: bool) -> Report | None:
    match reason:
        case Reason.WAITING_FOR_RETRY | Reason.OUTPUT_TOO_LARGE:
            return None
        case Reason.RETRYING:
            return _held(facts.status)
        case Reason.PAUSED:
            return paused(facts.obj.status, facts.obj.metadata)
        case Reason.SUSPENDED:
            return _suspended()
        case Reason.CANCELLING:
            return _ending(facts, Return.TRANSITION)
        case Reason.CLOUD_UNAVAILABLE if isinstance(facts.error, errors.NotFound):
            return replace(_hindered_by(facts.error), ready=None)  # as it was last seen
        case Reason.CLOUD_UNAVAILABLE:
            return blind(facts.error, unreachable=unreachable)
        case Reason.WAITING_FOR_ACCOUNT if not isinstance(facts.account, AccountReady):
            return _without_account(facts, facts.account)
        case _:
            return unknown(reason, facts.note)


def _suspended() -> Report:
    text = "spec.suspend holds it back; nothing of it runs"
    held = Wanted(ConditionType.SUSPENDED, "True", Reason.SUSPENDED, text)
    return Report("True", None, Reason.SUSPENDED, text, Return.SETTLED, extra=(held,))


def _without_account(facts: Facts, account: AccountWaiting | AccountRefused) -> Report:
    return without_account(account, deleting=facts.view.deleting, recorded=bool(facts.obj.status.create_token))


def _stalled(facts: Facts, reason: Reason) -> Report:
    if not isinstance(facts.account, AccountReady):
        return _without_account(facts, facts.account)
    if reason is Reason.CRD_OUTDATED:
        return outdated(facts.outdated)
    text = f"{facts.note}: nobody can tell what was sent. Delete the object with the annotation gpurelay.dev/abandon"
    return unknown(reason, text, Return.SETTLED, stalled=True)


def _working(work: Work, status: InferenceBatchStatus) -> Report:
    """The report while long work runs, whose end wakes the object."""
    match work:
        case Work.SEND if (status.round or 1) > 1:
            return Report("True", None, Reason.RETRYING, "records are sent again", Return.NEVER)
        case Work.SEND:
            return Report("False", _ON_THE_WAY, Reason.UPLOADING, _READING, Return.NEVER)
        case Work.PUBLISH:
            return Report("True", None, Reason.PUBLISHING, "the answers are being published", Return.NEVER)
        case Work.CLEAR:
            return outcome(status, Return.NEVER)
        case _ as never:
            assert_never(never)


def _recorded(facts: Facts, status: InferenceBatchStatus) -> Report:
    if status.completion_time is not None:
        if isinstance(facts.came, WorkTroubled) and not status.cleared:
            return _uncleared(status, facts.came)
        return _finished(facts, status)
    if isinstance(facts.came, WorkTroubled):
        return _troubled(facts.came)
    if status.ending is not None and facts.obj.status.ending is None:
        return Report("False", _ON_THE_WAY, status.ending.reason, status.ending.message, Return.SOON)
    if status.retry_time is not None:
        return replace(_held(status), back=Return.SOON)
    return Report("False", _ON_THE_WAY, Reason.SUBMITTING, "the batch is being created", Return.SOON)


def _uncleared(status: InferenceBatchStatus, came: WorkTroubled) -> Report:
    """Finished all the same: files left in the cloud cost little, and are deleted once the cloud allows it."""
    known = outcome(status, Return.TRANSITION)
    message = f"{clause(known.message)}; its files are still in the cloud: {came.message}"
    return replace(known, message=message, retry=RetryKind.ADVISED, retry_after=came.retry_after)


def _ending(facts: Facts, back: Return) -> Report:
    """The report on a batch that is being ended, with the reason."""
    ending = facts.ending
    if facts.view.deleting:
        return Report("False", _ON_THE_WAY, Reason.DELETING, "it is being cancelled in the cloud", back)
    if ending is None:
        return Report("False", _ON_THE_WAY, Reason.CANCELLING, "spec.suspend: it is being cancelled", back)
    return Report("False", _ON_THE_WAY, Reason.CANCELLING, ending.message, back, extra=tuple(because(ending)))


def _finished(facts: Facts, status: InferenceBatchStatus) -> Report:
    # A batch that expired while being cleared must come back at once, since nothing else would wake it.
    expired = predicates.expired(facts.obj.spec, status, facts.now)
    at_rest = status.cleared and not facts.view.deleting and not expired
    return outcome(status, Return.NEVER if at_rest else Return.SOON)


def outcome(status: InferenceBatchStatus, back: Return) -> Report:
    """Complete, or Failed with its reason."""
    ending, counts, where = status.ending, status.request_counts, _where(status)
    if ending is None:
        answered = f"{counts.completed} of {counts.total} records answered, {counts.failed} failed" if counts else ""
        message = f"{answered}{why(status)}; published to {where}"
        complete = Wanted(ConditionType.COMPLETE, "True", Reason.COMPLETED, message)
        return Report("True", None, Reason.COMPLETED, message, back, extra=(complete,))
    message = f"{clause(ending.message)}; what there is was published to {where}" if where else ending.message
    message += f"; records failed{why(status)}" if status.failure_reasons else ""
    failed = Wanted(ConditionType.FAILED, "True", ending.reason, message)
    extra = (failed, *because(ending))
    return Report("False", ConditionType.STALLED, ending.reason, message, back, extra=extra)


def doubts(facts: Facts, status: InferenceBatchStatus, reason: str) -> Iterator[Wanted]:
    """The condition that warns of an output that is probably too small, until the size is known."""
    known = reason == Reason.OUTPUT_TOO_LARGE or status.completion_time is not None
    text = None if known else doubt(facts.obj.spec, status)
    if text is not None:
        yield Wanted(ConditionType.OUTPUT_MAY_NOT_FIT, "True", Reason.OUTPUT_MAY_NOT_FIT, text)


def because(ending: Ending) -> Iterator[Wanted]:
    """The conditions, besides Failed, that report the ending."""
    if ending.reason == Reason.BUDGET_EXCEEDED:
        yield Wanted(ConditionType.BUDGET_EXCEEDED, "True", ending.reason, ending.message)


def why(status: InferenceBatchStatus) -> str:
    """Why records failed, in parentheses."""
    reasons = ", ".join(f"{reason.code}: {reason.count}" for reason in status.failure_reasons or ())
    return f" ({reasons})" if reasons else ""


def _where(status: InferenceBatchStatus) -> str:
    """Where the answers are, and the failures if there are any."""
    output, counts = status.output, status.request_counts
    if output is None or not output.answers:
        return ""
    return f"{output.answers}; failures: {output.errors}" if counts and counts.failed else output.answers
