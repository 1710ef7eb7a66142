"""Builds the status to write, and the smallest patch that writes it. Pure."""

from pydantic import JsonValue

from relay_operator.api.inferencebatch import InferenceBatchStatus
from relay_operator.engine.backoff import RetryPolicy
from relay_operator.engine.report import Report
from relay_operator.engine.status import conditions_of, of_every_pass, status_patch, whole_seconds
from relay_operator.flows.batch.facts import Facts

_PROGRESS = frozenset({"requestCounts", "progressPercent", "usage", "cost", "parts", "conditions"})
"""What changes with every look at a batch that runs."""


def told(facts: Facts, status: InferenceBatchStatus, report: Report, retry_policy: RetryPolicy) -> InferenceBatchStatus:
    """The status with conditions and the time of the next attempt."""
    before, wanted = facts.obj.status, conditions_of(facts.obj.status.conditions, report)
    always = of_every_pass(before, facts.obj.metadata, wanted, facts.now, looked=facts.error is None)
    return status.model_copy(update=always | _attempts(facts, report, retry_policy))


def _attempts(facts: Facts, report: Report, retry_policy: RetryPolicy) -> dict[str, object]:
    if report.retry is None:
        return {"failures": None, "next_attempt_time": None}
    failures = (facts.obj.status.failures or 0) + 1
    wait = retry_policy.wait(report.retry, report.retry_after, failures)
    return {"failures": failures, "next_attempt_time": whole_seconds(facts.now, wait)}


def parts_of(status: InferenceBatchStatus) -> list[JsonValue]:
    """The parts as they stand in the API."""
    return [part.model_dump(mode="json", exclude_none=True) for part in status.parts or ()]


def is_progress_alone(before: InferenceBatchStatus, after: InferenceBatchStatus) -> bool:
    """Whether they differ in nothing but how far a running batch is: that may wait until more has come together."""
    if not status_patch(before, after).keys() <= _PROGRESS:
        return False
    same_words = [(each.type, each.status, each.reason) for each in before.conditions] == [
        (each.type, each.status, each.reason) for each in after.conditions
    ]
    same_parts = [(part.state, part.batch_id, part.input_file_id) for part in before.parts or ()] == [
        (part.state, part.batch_id, part.input_file_id) for part in after.parts or ()
    ]
    return same_words and same_parts
