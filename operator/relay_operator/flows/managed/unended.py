"""Former resources that cannot be ended now: this is tried again later, and nothing else waits for that. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from relay_client.errors import CloudError, clause
from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.engine.backoff import RetryPolicy
from relay_operator.engine.queue import Priority
from relay_operator.engine.report import Report, refusal, refused


@dataclass(frozen=True, slots=True)
class Unended:
    """A former resource that the cloud refused to end, or shows something else in place of."""

    cloud_id: str
    refusal: Report
    """The report on the last refusal, or on what the cloud shows."""
    failures: int
    """Consecutive refusals."""
    at: float
    """When that was, in monotonic seconds."""
    wait: float
    """Seconds until it is tried again."""

    def left(self, now: float) -> float:
        """How many of these seconds are left; zero or less if none is."""
        return self.at + self.wait - now


def noted(
    rows: Sequence[Unended], cloud_id: str, error: CloudError | None, policy: RetryPolicy, now: float
) -> tuple[Unended, ...]:
    """The rows after the cloud was asked to end this resource; `error` is its refusal, None if it gave none."""
    if error is None:
        return _without(rows, cloud_id)
    failures = 1 + sum(row.failures for row in rows if row.cloud_id == cloud_id)
    wait = policy.wait(refusal(error).retry, error.retry_after, failures)
    return _with(rows, Unended(cloud_id, refused(error), failures, now, wait))


def foreign(rows: Sequence[Unended], cloud_id: str, why: str, now: float, wait: float) -> tuple[Unended, ...]:
    """The rows after the cloud showed something else under this id: that is not ended, and no evidence of an end."""
    report = Report("False", ConditionType.STALLED, Reason.IDENTITY_MISMATCH, why)
    return _with(rows, Unended(cloud_id, report, 1, now, wait))


def _with(rows: Sequence[Unended], new: Unended) -> tuple[Unended, ...]:
    # In a fixed order: which one the message names does not change with each attempt.
    return tuple(sorted((*_without(rows, new.cloud_id), new), key=attrgetter("cloud_id")))


def _without(rows: Sequence[Unended], cloud_id: str) -> tuple[Unended, ...]:
    return tuple(row for row in rows if row.cloud_id != cloud_id)


def told(report: Report, row: Unended) -> Report:
    """The report, which says that the former resource cannot be ended; what else keeps it from being Ready leads."""
    words = (clause(report.message), f"the former one, {row.cloud_id}, cannot be ended: {row.refusal.message}")
    report = replace(report, message="; ".join(filter(None, words)))
    if report.ready != "True" and report.reason != Reason.DELETING:
        return report
    return replace(report, ready="False", trouble=row.refusal.trouble, reason=row.refusal.reason)


def coming_back(report: Report, seconds: float) -> Report:
    """The report, which returns when the cloud is asked again as well."""
    return replace(report, looks=(*report.looks, (seconds, Priority.RETRY)))
