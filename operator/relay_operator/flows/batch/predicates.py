"""Computes what a `View` needs from a batch. Pure: without I/O, and the time is an argument."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from relay_client.redaction import presentable
from relay_operator.api import meta
from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.api.inferencebatch import (
    MOST_RECORDS,
    MOVABLE,
    SHOWN_PROBLEMS,
    Ending,
    InferenceBatch,
    InferenceBatchStatus,
    PartStatus,
    Problem,
    RequestCounts,
    Usage,
)
from relay_operator.api.inferencebatch_spec import BatchDeletionPolicy, InferenceBatchSpec, RecordRetry
from relay_operator.api.meta import CreateIntent, Identity, MalformedIntent
from relay_operator.engine import conditions
from relay_operator.engine.backoff import is_ahead
from relay_operator.engine.fit_schema import fit_schema
from relay_operator.engine.identity import located
from relay_operator.engine.status import whole_seconds
from relay_operator.flows.batch.plan import BatchDemand, Holds, Phase, Round
from relay_operator.records.problems import ProblemCode
from relay_wire.batches import FINAL, Batch, BatchStatus

GONE = "gone"
"""A part's state if the cloud no longer finds its batch."""
CUT = frozenset({BatchStatus.CANCELLING, BatchStatus.CANCELLED})
"""States of a batch that somebody cancelled."""
MISPLACED = frozenset({Reason.OUTPUT_TOO_LARGE, Reason.OUTPUT_EXISTS})
"""Paid answers that cannot go to `spec.output` wait until it names another place."""
_LAST = datetime.max.replace(tzinfo=UTC)
_OVER = {*FINAL, GONE}
_UNREAD = frozenset({ProblemCode.LINE_TOO_LONG, ProblemCode.MISSING_CUSTOM_ID, ProblemCode.UNKNOWN_CUSTOM_ID})

_DEMAND_BY_POLICY = {
    BatchDeletionPolicy.PUBLISH_PARTIAL: BatchDemand.DELETE,
    BatchDeletionPolicy.DISCARD: BatchDemand.DELETE_DISCARDING,
    BatchDeletionPolicy.ORPHAN: BatchDemand.DELETE_ORPHANING,
}
Intent = CreateIntent | MalformedIntent | None


def demand(obj: InferenceBatch) -> BatchDemand:
    """What people want; `abandon` counts only while the object is being deleted."""
    if obj.metadata.deletion_timestamp is None:
        return BatchDemand.SUSPEND if obj.spec.suspend else BatchDemand.EXIST
    if obj.metadata.annotations.get(meta.ABANDON) == "true":
        return BatchDemand.DELETE_ABANDONING
    return _DEMAND_BY_POLICY[obj.spec.deletion_policy]


def phase(obj: InferenceBatch, intent: Intent, now: datetime) -> Phase:
    """The batch's progress, as far as it is recorded."""
    status = obj.status
    if status.cleared:
        return Phase.EXPIRED if expired(obj.spec, status, now) else Phase.CLEARED
    if status.completion_time is not None:
        return Phase.FINISHED
    if status.output is not None and status.output.begun_at is not None:
        return Phase.PUBLISHING
    return Phase.NEW if intent is None and not status.create_token else Phase.ACTIVE


def fits_nowhere(status: InferenceBatchStatus) -> bool:
    """Whether the answers were too large for the output named when this status was written."""
    stalled = conditions.find(status.conditions, ConditionType.STALLED)
    return stalled is not None and stalled.reason == Reason.OUTPUT_TOO_LARGE


def may_be_elsewhere(status: InferenceBatchStatus) -> bool:
    """Whether `spec.output` may have changed since it was claimed."""
    ready = conditions.find(status.conditions, ConditionType.READY)
    return ready is not None and ready.reason in MOVABLE


def expires_at(spec: InferenceBatchSpec, status: InferenceBatchStatus) -> datetime | None:
    """When the object is to be deleted automatically; None if never."""
    ttl, finished = spec.ttl_seconds_after_finished, status.completion_time
    return None if ttl is None or finished is None else later(finished, timedelta(seconds=ttl))


def expired(spec: InferenceBatchSpec, status: InferenceBatchStatus, now: datetime) -> bool:
    """Whether the object is due for automatic deletion."""
    ends = expires_at(spec, status)
    return ends is not None and now >= ends


def deadline(spec: InferenceBatchSpec, status: InferenceBatchStatus) -> datetime | None:
    """When the batch's time is up; None if it has no deadline."""
    seconds, begun = spec.active_deadline_seconds, status.start_time
    return None if seconds is None or begun is None else later(begun, timedelta(seconds=seconds))


def later(moment: datetime, wait: timedelta) -> datetime:
    """The moment after the wait; the last of all moments if it is behind that, as after an edit of `result.json`."""
    try:
        return moment + wait
    except OverflowError:
        return _LAST


def this_round(status: InferenceBatchStatus) -> list[PartStatus]:
    """The parts of the current round."""
    return [part for part in status.parts or () if part.round == status.round]


def over(part: PartStatus) -> bool:
    """Whether the part's batch is final."""
    return part.state in _OVER


def made_for(status: InferenceBatchStatus, now: Identity | None) -> Identity | None:
    """Whose the batch is, as it began, in the organization and the cloud of `now`; None if neither is known."""
    begun = status.identity
    return now or begun if begun is None or now is None else located(begun, now)


def live(status: InferenceBatchStatus) -> list[PartStatus]:
    """Parts whose batch runs in the cloud."""
    return [part for part in status.parts or () if part.batch_id is not None and not over(part)]


def gone(status: InferenceBatchStatus) -> list[PartStatus]:
    """Parts whose batch the cloud does not find any more."""
    return [part for part in status.parts or () if part.state == GONE]


def is_contradictory(part: PartStatus) -> bool:
    """Whether a final batch cannot be as the cloud tells: complete without all records, or paid for without results.

    A batch that is cancelled or expires may lack records; nobody knows which records of this one are paid for.
    """
    counted = part.completed + part.failed
    short = part.state == BatchStatus.COMPLETED and counted < part.records
    nothing = over(part) and not counted and not (part.output_file_id or part.error_file_id)
    return short or (nothing and part.usage is not None and part.usage.cost_nano_usd > 0)


def nothing_sent(status: InferenceBatchStatus) -> bool:
    """Whether the batch began, and the cloud was asked to create nothing yet."""
    sent = any(part.batch_id or part.sent_at for part in status.parts or ())
    return status.create_token is not None and not sent


def unanswered(status: InferenceBatchStatus) -> list[PartStatus]:
    """Parts whose create was sent and whose batch is unknown."""
    return [part for part in status.parts or () if part.sent_at is not None and part.batch_id is None]


def unsettled(status: InferenceBatchStatus, written: Intent) -> bool:
    """Whether a create may have been sent whose outcome is not recorded.

    Once there is a token, the markers of the parts tell, even if the intent cannot be read.
    """
    is_open = written is not None and (
        written.token != status.create_token if isinstance(written, CreateIntent) else not status.create_token
    )
    return is_open or bool(unanswered(status))


def unpaid(status: InferenceBatchStatus) -> PartStatus | None:
    """The next part that needs a batch; None if all have one."""
    waiting = (part for part in this_round(status) if part.sent_at is None and part.batch_id is None)
    return next(waiting, None)


def holds(status: InferenceBatchStatus) -> Holds:
    """What the cloud has of this object."""
    parts = status.parts or []
    if any(part.output_file_id or part.error_file_id for part in parts):
        return Holds.RESULTS
    return Holds.FILES if parts else Holds.NOTHING


def round_of(spec: InferenceBatchSpec, status: InferenceBatchStatus, now: datetime) -> Round:
    """What the current round still needs."""
    if status.exhausted:
        return Round.OVER
    parts = this_round(status)
    if not parts or any(part.input_file_id is None for part in parts):
        return Round.UNSENT
    if any(part.batch_id is None for part in parts):
        longest = timedelta(seconds=record_retry(spec).max_backoff_seconds + 1)  # in the whole seconds of status
        return Round.HELD if is_ahead(status.retry_time, now, longest) else Round.UNPAID
    if not all(map(over, parts)):
        return Round.SENT
    return Round.OVER_MORE if may_go_on(spec, status) else Round.OVER


def may_go_on(spec: InferenceBatchSpec, status: InferenceBatchStatus) -> bool:
    """Whether some records may be sent again; only the results show which."""
    counts = counted(status)
    attempts_left = (status.attempt or 1) < record_retry(spec).max_attempts
    missing = counts.total - counts.completed - counts.failed
    cancelled = any(part.state == BatchStatus.CANCELLED for part in this_round(status))
    cut = status.suspended or (spec.suspend and cancelled)  # maybe by a process that could not record it
    return (attempts_left and counts.failed + missing > 0) or (bool(cut) and missing > 0)


def retry_time(spec: InferenceBatchSpec, attempt: int, now: datetime) -> datetime | None:
    """When this attempt at failed records may begin, in whole seconds; None: at once."""
    policy = record_retry(spec)
    if not policy.backoff_seconds:
        return None
    return whole_seconds(now, min(policy.backoff_seconds * 2 ** (attempt - 2), policy.max_backoff_seconds))


def record_retry(spec: InferenceBatchSpec) -> RecordRetry:
    """Which records are sent again, and how often."""
    return spec.retry_policy or RecordRetry()


def refreshed(status: InferenceBatchStatus, seen: Iterable[tuple[PartStatus, Batch]] = ()) -> InferenceBatchStatus:
    """The status with what the cloud says about its batches, and what follows from its parts."""
    news = {(part.round, part.part): batch for part, batch in seen}
    parts = [mirrored(part, news.get((part.round, part.part))) for part in status.parts or ()]
    if not parts:
        return status
    after = status.model_copy(update={"parts": parts})
    latest = max((part for part in parts if part.batch_id), key=_order, default=None)
    counts, usage = counted(after), spent(after)
    changed: dict[str, object] = {"request_counts": counts, "usage": usage, "cost": dollars(usage.cost_nano_usd)}
    changed["progress_percent"] = progress(after, counts)
    changed["input_file_id"] = parts[0].input_file_id
    if problems := [problem for batch in news.values() for problem in _problems(batch)]:
        changed |= {"problems": problems[:SHOWN_PROBLEMS], "status_reason": problems[0].message}
    if latest is not None:
        changed |= {"id": latest.batch_id, "batch_id": latest.batch_id, "state": latest.state}
    return after.model_copy(update=changed)


def _problems(batch: Batch) -> Iterator[Problem]:
    """The cloud's problems with the records, in its own words, without what looks like a secret of the records."""
    for problem in batch.errors.data if batch.errors is not None else ():
        line = _number(problem.line or 0) or None
        message = presentable(problem.message or problem.code or "") or "the cloud gives no reason"
        yield Problem(line=line, code=presentable(problem.code or "refused")[:64], message=message)


def _order(part: PartStatus) -> tuple[int, int]:
    return part.round, part.part


def listed(part: PartStatus, batch: Batch) -> PartStatus:
    """The part with a batch that a list or the answer to its create shows: if it is final, it is read once more.

    Such a row may lack the counts, or the files with what was paid for.
    """
    read_again = {"status": BatchStatus.IN_PROGRESS} if batch.status in FINAL else {}
    return mirrored(part, batch.model_copy(update=read_again))


def mirrored(part: PartStatus, batch: Batch | None) -> PartStatus:
    """The part with what the cloud says about its batch."""
    if batch is None:
        return part
    counts, usage = batch.request_counts, batch.usage
    changed: dict[str, object] = {
        "batch_id": part.batch_id or batch.id,
        "state": batch.status[:64],  # the API server would refuse a longer one, and with it the whole status
        "completed": _number(counts.completed),
        "failed": _number(counts.failed),
        "records": part.records or _number(counts.total),
        "output_file_id": batch.output_file_id or part.output_file_id,
        "error_file_id": batch.error_file_id or part.error_file_id,
        "input_file_id": part.input_file_id or batch.input_file_id,
    }
    if usage is not None:
        changed["usage"] = Usage(
            input_tokens=_number(usage.input_tokens),
            output_tokens=_number(usage.output_tokens),
            cost_nano_usd=_number(usage.cost_nano_usd),
        )
    return part.model_copy(update=changed)


def _number(told: int) -> int:
    return min(max(told, 0), MOST_RECORDS)


def counted(status: InferenceBatchStatus) -> RequestCounts:
    """Counts each record once: a record that was sent again has failed only if it failed again."""
    parts = status.parts or []
    total = status.input.records if status.input is not None else sum(part.records for part in parts if part.round == 1)
    completed = min(sum(part.completed for part in parts), total)
    failed = sum(part.failed for part in parts) - (status.retried or 0)
    return RequestCounts(total=total, completed=completed, failed=min(max(failed, 0), total - completed))


def progress(status: InferenceBatchStatus, counts: RequestCounts) -> int:
    """Percent of the records that are not sent again; never falls.

    Before the last round that began, every failure was either sent again or is final.
    """
    parts = status.parts or []
    last = max((part.round for part in parts), default=1)
    final = sum(part.failed for part in parts if part.round < last) - (status.retried or 0)
    through = min(counts.completed + max(final, 0), counts.total)
    return 100 * through // counts.total if counts.total else 0


def spent(status: InferenceBatchStatus) -> Usage:
    """Tokens and money over all rounds."""
    usages = [part.usage for part in status.parts or () if part.usage is not None]
    sums = {name: sum(getattr(usage, name) for usage in usages) for name in Usage.model_fields}
    return Usage.model_validate(fit_schema(Usage, sums))


def dollars(nano_usd: int) -> str:
    """A price for people: whole cents if that is precise enough, else all its decimal places."""
    whole, fraction = divmod(nano_usd, 10**9)
    places = f"{fraction:09d}"
    shown = places[:2] if nano_usd >= 10**9 else (places.rstrip("0") or "0").ljust(2, "0")
    return f"{whole}.{shown} USD"


def ending(spec: InferenceBatchSpec, status: InferenceBatchStatus, now: datetime) -> Ending | None:
    """Why the batch must now end without being complete; None if it need not."""
    refused = next((part for part in status.parts or () if part.state == BatchStatus.FAILED), None)
    if refused is not None:
        message = status.status_reason or f"the cloud refuses batch {refused.batch_id}"
        return Ending(reason=Reason.BATCH_REFUSED, message=message[:1024])
    if (lost := next(iter(gone(status)), None)) is not None:
        return Ending(reason=Reason.RESULTS_LOST, message=f"the cloud does not find batch {lost.batch_id} any more")
    if (odd := next(filter(is_contradictory, status.parts or ()), None)) is not None:
        told = f"{odd.completed + odd.failed} of {odd.records} records"
        message = f"the cloud says that batch {odd.batch_id} is {odd.state}, counts {told}, and has no more results"
        return Ending(reason=Reason.RESULTS_LOST, message=message)
    if round_of(spec, status, now) is Round.OVER:
        return None
    due, limit = deadline(spec, status), spec.budget.limit_nano_usd if spec.budget is not None else None
    if due is not None and now >= due and not spec.suspend:
        message = f"not finished within {spec.active_deadline_seconds} s (activeDeadlineSeconds)"
        return Ending(reason=Reason.DEADLINE_EXCEEDED, message=message)
    cost = spent(status).cost_nano_usd
    if limit is not None and cost >= limit:
        message = f"it cost {dollars(cost)}, and budget allows {dollars(limit)}"
        return Ending(reason=Reason.BUDGET_EXCEEDED, message=message)
    return None


def unread(problems: Iterable[Problem]) -> bool:
    """Whether lines of the cloud's results could not be published, though they may be paid answers."""
    return any(problem.code in _UNREAD for problem in problems)


def too_many_failures(spec: InferenceBatchSpec, counts: RequestCounts) -> str | None:
    """Which limit of `failurePolicy` these counts exceed, as a message; None if none."""
    policy = spec.failure_policy
    if policy is None:
        return None
    if policy.max_failed_records is not None and counts.failed > policy.max_failed_records:
        return f"{counts.failed} of {counts.total} records failed; failurePolicy allows {policy.max_failed_records}"
    percent = policy.max_failed_percent
    if percent is not None and counts.failed * 100 > percent * counts.total:
        return f"{counts.failed} of {counts.total} records failed; failurePolicy allows {percent} %"
    return None
