"""What to tell of a batch that is finished. Pure."""

from collections.abc import Iterator

from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.api.inferencebatch import Ending, InferenceBatchStatus
from relay_operator.engine.conditions import Wanted
from relay_operator.engine.report import Report, Return


def outcome(status: InferenceBatchStatus, back: Return) -> Report:
    """Complete, or Failed for a reason."""
    ending, counts, where = status.ending, status.request_counts, _where(status)
    if ending is None:
        answered = f"{counts.completed} of {counts.total} records answered, {counts.failed} failed" if counts else ""
        message = f"{answered}{why(status)}; published to {where}"
        complete = Wanted(ConditionType.COMPLETE, "True", Reason.COMPLETED, message)
        return Report("True", None, Reason.COMPLETED, message, back, extra=(complete,))
    message = f"{ending.message}; what there is was published to {where}" if where else ending.message
    message += f"; records failed{why(status)}" if status.failure_reasons else ""
    failed = Wanted(ConditionType.FAILED, "True", ending.reason, message)
    extra = (failed, *because(ending))
    return Report("False", ConditionType.STALLED, Reason(ending.reason), message, back, extra=extra)


def because(ending: Ending) -> Iterator[Wanted]:
    """The conditions that tell of the ending beside Failed."""
    if ending.reason == Reason.BUDGET_EXCEEDED:
        yield Wanted(ConditionType.BUDGET_EXCEEDED, "True", ending.reason, ending.message)


def why(status: InferenceBatchStatus) -> str:
    """Why records failed, in brackets."""
    reasons = ", ".join(f"{reason.code}: {reason.count}" for reason in status.failure_reasons or ())
    return f" ({reasons})" if reasons else ""


def _where(status: InferenceBatchStatus) -> str:
    """Where the answers are; the failures too, where there are some."""
    output, counts = status.output, status.request_counts
    if output is None or not output.answers:
        return ""
    return f"{output.answers}; failures: {output.errors}" if counts and counts.failed else output.answers
