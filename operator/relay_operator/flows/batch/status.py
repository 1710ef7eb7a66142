"""Builds the status to write, and the smallest patch that writes it. Pure."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from pydantic import JsonValue

from relay_operator.api import meta
from relay_operator.api.conditions import ConditionType
from relay_operator.api.inferencebatch import InferenceBatchStatus
from relay_operator.engine import conditions
from relay_operator.engine.conditions import Wanted
from relay_operator.flows.batch.facts import Facts
from relay_operator.flows.managed.report import Report
from relay_operator.flows.managed.status import RetryPolicy, merge_patch

_PROGRESS = frozenset({"requestCounts", "progressPercent", "usage", "cost", "parts", "conditions"})
"""What changes with every look at a batch that runs."""


def told(facts: Facts, status: InferenceBatchStatus, report: Report, retry_policy: RetryPolicy) -> InferenceBatchStatus:
    """The status with conditions and the time of the next attempt."""
    obj = facts.obj
    changed: dict[str, object] = {"observed_generation": obj.metadata.generation}
    if facts.error is None:
        changed["reconcile_at"] = obj.metadata.annotations.get(meta.RECONCILE_AT)
    changed |= _attempts(facts, report, retry_policy)
    wanted = list(_conditions(facts, report))
    changed["conditions"] = conditions.written(obj.status.conditions, wanted, obj.metadata.generation, facts.now)
    return status.model_copy(update=changed)


def _attempts(facts: Facts, report: Report, retry_policy: RetryPolicy) -> dict[str, object]:
    if report.pace is None:
        return {"failures": None, "next_attempt_time": None}
    failures = (facts.obj.status.failures or 0) + 1
    wait = retry_policy.wait(report.pace, report.retry_after, failures)
    return {"failures": failures, "next_attempt_time": _whole_seconds(facts.now, wait)}


def _whole_seconds(now: datetime, wait: float) -> datetime:
    return (now + timedelta(seconds=wait + 0.999)).replace(microsecond=0)


def _conditions(facts: Facts, report: Report) -> Iterator[Wanted]:
    """`Ready` always; `Reconciling` and `Stalled` only while true; the others while they have something to say."""
    before = conditions.find(facts.obj.status.conditions, ConditionType.READY)
    if report.ready is None and before is not None:
        yield Wanted(ConditionType.READY, before.status, before.reason, before.message)
    else:
        yield Wanted(ConditionType.READY, report.ready or "False", report.reason, report.message)
    if report.trouble is not None:
        yield Wanted(report.trouble, "True", report.reason, report.message)
    yield from report.extra


def status_patch(before: InferenceBatchStatus, after: InferenceBatchStatus) -> dict[str, JsonValue]:
    """The merge patch from one to the other; empty where they are the same."""
    return merge_patch(_dumped(before), _dumped(after))


def parts_of(status: InferenceBatchStatus) -> list[JsonValue]:
    """The parts as they stand in the API."""
    return [part.model_dump(mode="json", exclude_none=True) for part in status.parts or ()]


def is_progress_alone(before: InferenceBatchStatus, after: InferenceBatchStatus, patch: dict[str, JsonValue]) -> bool:
    """Whether the patch tells nothing but how far a running batch is: that may wait until more has come together."""
    if not patch.keys() <= _PROGRESS:
        return False
    same_words = [(each.type, each.status, each.reason) for each in before.conditions] == [
        (each.type, each.status, each.reason) for each in after.conditions
    ]
    same_parts = [(part.state, part.batch_id, part.input_file_id) for part in before.parts or ()] == [
        (part.state, part.batch_id, part.input_file_id) for part in after.parts or ()
    ]
    return same_words and same_parts


def _dumped(status: InferenceBatchStatus) -> dict[str, JsonValue]:
    fields: dict[str, JsonValue] = status.model_dump(mode="json", exclude_none=True)
    return {name: value for name, value in fields.items() if value != ""}
