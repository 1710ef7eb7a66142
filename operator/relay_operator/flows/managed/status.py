"""Builds the status to write, and the smallest patch that writes it. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from pydantic import JsonValue, ValidationError

from relay_operator.api import meta
from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.api.meta import CreateIntent, Resource
from relay_operator.api.workload import CommonStatus, WorkloadSpec
from relay_operator.engine import conditions
from relay_operator.engine.account import pinned
from relay_operator.engine.backoff import Backoff, Random
from relay_operator.engine.conditions import Wanted
from relay_operator.flows.managed import actions, predicates, recovery
from relay_operator.flows.managed.actions import Action, Step
from relay_operator.flows.managed.facts import Facts
from relay_operator.flows.managed.plan import Difference, Recovery, Seen
from relay_operator.flows.managed.report import Report, RetryKind
from relay_operator.flows.managed.resource import ExternalResource, Progress
from relay_operator.flows.managed.result import Accepted, Rejected, Result, Sent

SpecT = TypeVar("SpecT", bound=WorkloadSpec)
StatusT = TypeVar("StatusT", bound=CommonStatus)
ObsT = TypeVar("ObsT")
Fields = dict[str, object]

_OF_THE_RESOURCE = (
    "id",
    "account",
    "cloud_name",
    "state",
    "status_reason",
    "endpoint_url",
    "spec_hash",
    "env_digest",
    "price_per_hour_cents",
    "deletion_deadline",
    "replacing",
)
"""What is said of one resource alone, and goes with it."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How refused attempts are spread."""

    quick: Backoff
    random: Random

    def wait(self, pace: RetryKind, retry_after: float | None, failures: int) -> float:
        """Seconds until the next attempt; Retry-After is a floor, up to the longest backoff."""
        match pace:
            case RetryKind.SLOW:
                return self.quick.limit
            case RetryKind.ADVISED if retry_after is not None:
                advised = min(retry_after, self.quick.limit)
                return max(advised, self.quick.initial) * (1 + self.random() / 4)
            case _:
                return self.quick.after(failures, self.random)


def new_status(
    resource: ExternalResource[SpecT, StatusT, ObsT],
    facts: Facts[SpecT, StatusT, ObsT],
    action: Action,
    result: Result[ObsT],
    report: Report,
    retry_policy: RetryPolicy,
) -> StatusT:
    """What status should say after this pass."""
    obj, observed = facts.obj, result.resource if isinstance(result, Accepted) else facts.observed
    mirrored = obj.status if observed is None else resource.status(obj, observed)
    if observed is None and facts.view.seen is Seen.GONE:
        mirrored = mirrored.model_copy(update={"state": "terminated"})
    changed: Fields = {"observed_generation": obj.metadata.generation}
    changed |= _protocol(resource, facts, action, result)
    changed |= _clocks(resource, facts, action, result, observed)
    changed |= _attempts(resource, facts, result, report, retry_policy)
    changed["recoveries"] = _recoveries(facts, action, result, report)
    changed["conditions"] = conditions.written(
        obj.status.conditions, list(_conditions(facts, report)), obj.metadata.generation, facts.now
    )
    if mirrored.state != obj.status.state and "state" not in changed:
        changed["state_since"] = facts.now
    changed.setdefault("deletion_deadline", report.deletion_deadline)
    return _storable(mirrored.model_copy(update=changed))


def _storable(status: StatusT) -> StatusT:
    """Without what the CRD's bounds refuse: one odd value of the cloud must not keep the id from being written."""
    try:
        type(status).model_validate(status.model_dump())
    except ValidationError as refused:
        odd = {error["loc"][0] for error in refused.errors(include_input=False)} - {"id"}
        fields = type(status).model_fields.items()
        return status.model_copy(update={name: None for name, field in fields if odd & {name, field.alias}})
    return status


def _protocol(
    resource: ExternalResource[SpecT, StatusT, ObsT],
    facts: Facts[SpecT, StatusT, ObsT],
    action: Action,
    result: Result[ObsT],
) -> Fields:
    """Id and token: which intent is closed, and what it led to."""
    match result:
        case Accepted(resource=observed, intent=intent):
            return _owned(resource, facts, observed, intent)
        case Rejected(intent=CreateIntent() as intent):
            return {"create_token": intent.token, "attempt": intent.attempt}
        case _:
            pass
    if isinstance(action, actions.CloseIntent):
        token, attempt = (facts.intent.token, facts.intent.attempt) if facts.intent is not None else ("-", 1)
        return {"create_token": token, "attempt": max(attempt, facts.obj.status.attempt or 0)}
    if isinstance(action, actions.Replace):
        return {"replacing": True}
    if isinstance(action, actions.Keep | actions.Update):
        return {"replacing": None}
    if isinstance(action, actions.Forget):
        return dict.fromkeys(_OF_THE_RESOURCE)
    return {}


def _owned(
    resource: ExternalResource[SpecT, StatusT, ObsT],
    facts: Facts[SpecT, StatusT, ObsT],
    observed: ObsT,
    intent: CreateIntent,
) -> Fields:
    cloud_id, name = resource.identity(observed)
    return {
        "id": cloud_id,
        "cloud_name": name or intent.name,
        "create_token": intent.token,
        "attempt": intent.attempt,
        "spec_hash": intent.spec_hash,
        "env_digest": facts.env_digest,
        "account": pinned(facts.obj.spec.account_ref, None, intent),
    }


def _clocks(
    resource: ExternalResource[SpecT, StatusT, ObsT],
    facts: Facts[SpecT, StatusT, ObsT],
    action: Action,
    result: Result[ObsT],
    observed: ObsT | None,
) -> Fields:
    """Echoes of the annotations, and since when the workload has been running or stopped."""
    annotations, status = facts.obj.metadata.annotations, facts.obj.status
    changed: Fields = {}
    if facts.error is None:
        changed["reconcile_at"] = annotations.get(meta.RECONCILE_AT)
    start = isinstance(action, actions.Update) and action.step in {Step.START, Step.RESTART}
    started = start and isinstance(result, Sent)
    begun = isinstance(result, Accepted) or started
    if started:
        changed["state_since"] = facts.now  # the same state after this is another failure
    if begun:
        changed["restarted_at"] = annotations.get(meta.RESTARTED_AT)
        changed["running_since"] = None
    if observed is not None and not isinstance(result, Sent):
        progress = resource.progress(observed)
        if progress is Progress.READY and (begun or status.running_since is None):
            changed["running_since"] = facts.now
        if progress is Progress.STOPPED and not predicates.runtime_used_up(facts.obj, facts.now):
            changed["running_since"] = None
    return changed


def _attempts(
    resource: ExternalResource[SpecT, StatusT, ObsT],
    facts: Facts[SpecT, StatusT, ObsT],
    result: Result[ObsT],
    report: Report,
    retry_policy: RetryPolicy,
) -> Fields:
    """Failures in a row, and the earliest next attempt."""
    status = facts.obj.status
    if report.pace is None:
        settled = isinstance(result, Accepted) or (report.ready == "True" and _lasting(facts))
        return {"failures": None if settled else status.failures, "next_attempt_time": report.next_attempt}
    if facts.error is not None:  # a look is no attempt: it neither tries another model nor slows down the next create
        wait = retry_policy.wait(report.pace, report.retry_after, facts.unanswered)
        return {"failures": status.failures, "next_attempt_time": _whole_seconds(facts.now, wait)}
    failures = (status.failures or 0) + 1
    wait = retry_policy.wait(report.pace, report.retry_after, failures)
    create_refused = isinstance(result, Rejected) and result.intent is not None
    untried = create_refused and failures % max(len(resource.models(facts.obj)), 1) != 0
    if report.reason is Reason.WAITING_FOR_CAPACITY and untried:
        wait = 0.0
    return {"failures": failures, "next_attempt_time": _whole_seconds(facts.now, wait) if wait else None}


def _recoveries(facts: Facts[SpecT, StatusT, ObsT], action: Action, result: Result[ObsT], report: Report) -> int | None:
    """Restarts and recreations in a row: counted when they are begun, forgotten after a run that lasted."""
    obj, view = facts.obj, facts.view
    if report.ready == "True" and _lasting(facts):
        return None
    if isinstance(action, actions.Replace) or (isinstance(action, actions.Forget) and not view.replacing):
        return recovery.counted(obj, view.seen, view.recovery, facts.now) or None
    restart = isinstance(action, actions.Update) and view.difference is not Difference.STEP
    if restart and isinstance(result, Sent) and view.recovery is Recovery.RESTART:
        return recovery.counted(obj, view.seen, view.recovery, facts.now)
    return obj.status.recoveries


def _lasting(facts: Facts[SpecT, StatusT, ObsT]) -> bool:
    since = facts.obj.status.running_since
    return since is not None and facts.now - since >= recovery.LASTING


def _whole_seconds(now: datetime, wait: float) -> datetime:
    return (now + timedelta(seconds=wait + 0.999)).replace(microsecond=0)


def _conditions(facts: Facts[SpecT, StatusT, ObsT], report: Report) -> Iterator[Wanted]:
    """`Ready` always; `Reconciling` and `Stalled` only while true; the others while they have something to say."""
    before = conditions.find(facts.obj.status.conditions, ConditionType.READY)
    if report.ready is not None:
        yield Wanted(ConditionType.READY, report.ready, report.reason, report.message)
    elif before is not None:
        yield Wanted(ConditionType.READY, before.status, before.reason, before.message)
    else:
        yield Wanted(ConditionType.READY, "False", report.reason, report.message)
    if report.trouble is not None:
        yield Wanted(report.trouble, "True", report.reason, report.message)
    yield from report.extra
    outdated = facts.env_digest and facts.obj.status.env_digest and facts.env_digest != facts.obj.status.env_digest
    if outdated and facts.view.difference is not Difference.REPLACEABLE:
        message = "a Secret or ConfigMap in env has changed since the create; updateStrategy.type: Recreate applies it"
        yield Wanted(ConditionType.ENV_OUTDATED, "True", Reason.ENV_CHANGED, message)


def status_patch(obj: Resource[SpecT, StatusT], status: StatusT) -> dict[str, JsonValue]:
    """The merge patch from the object's status to this one; empty where they are the same."""
    return merge_patch(dumped(obj.status), dumped(status))


def dumped(status: CommonStatus) -> dict[str, JsonValue]:
    """As it stands in the API: empty texts are absent."""
    fields: dict[str, JsonValue] = status.model_dump(mode="json", exclude_none=True)
    return {name: value for name, value in fields.items() if value != ""}


def merge_patch(before: Mapping[str, JsonValue], after: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """What RFC 7386 needs to make one of the other; lists are replaced whole."""
    patch: dict[str, JsonValue] = {name: None for name in before if name not in after}
    for name, value in after.items():
        old = before.get(name)
        if isinstance(value, dict) and isinstance(old, dict):
            inner = merge_patch(old, value)
            if inner:
                patch[name] = inner
        elif name not in before or old != value:
            patch[name] = value
    return patch
