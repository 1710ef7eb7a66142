"""What the cloud shows of a resource, as a report. Pure."""

from collections.abc import Mapping
from typing import assert_never

from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.api.meta import rfc3339
from relay_operator.api.workload import SpecT, StatusT, WorkloadSpec
from relay_operator.engine.report import Report, Return
from relay_operator.flows.managed import predicates, schedule, workload
from relay_operator.flows.managed.abilities import drain, is_powered, is_priced
from relay_operator.flows.managed.facts import Facts
from relay_operator.flows.managed.funds_report import doomed, kept
from relay_operator.flows.managed.resource import ObsT, Progress
from relay_operator.flows.managed.view import Difference


def progressing(facts: Facts[SpecT, StatusT, ObsT], observed: ObsT) -> Report:
    """The report if nothing is done about the resource."""
    detail = facts.resource.detail(observed)
    match facts.resource.progress(observed):
        case Progress.READY:
            reason = Reason.RUNNING if _runs(facts) else Reason.AVAILABLE
            return Report("True", None, reason, detail, Return.SETTLED)
        case Progress.STOPPED:
            return _stopped(facts, detail)
        case Progress.DEGRADED:
            return Report("False", ConditionType.RECONCILING, Reason.DEGRADED, detail)
        case Progress.OFFLINE:
            return Report("False", ConditionType.RECONCILING, Reason.OFFLINE, detail, Return.SETTLED)
        case Progress.INTERRUPTED:
            since = predicates.since_in(facts.obj, "interrupted", facts.now)
            deadline, told = kept(facts, since)
            message = f"{detail}; interrupted since {rfc3339(since)}{told}"
            return Report("False", ConditionType.RECONCILING, Reason.INTERRUPTED, message, deletion_deadline=deadline)
        case Progress.FAILED:
            return Report("False", ConditionType.STALLED, Reason.FAILED, detail, Return.SETTLED)
        case (Progress.PENDING | Progress.GONE) as progress:
            begins = Reason.DEPLOYING if _runs(facts) else Reason.CREATING
            shown = facts.resource.told(facts.obj, observed)
            stops = shown.get("state") == "stopping"
            if progress is Progress.PENDING and not stops and (later := _later(facts, shown)):
                detail = f"it is {later} as soon as it runs; {detail}"
            return Report("False", ConditionType.RECONCILING, Reason.STOPPING if stops else begins, detail)
        case _ as never:
            assert_never(never)


def _later(facts: Facts[SpecT, StatusT, ObsT], shown: Mapping[str, object]) -> str:
    """What is to be done to it, which the cloud refuses until it runs; empty if nothing is."""
    resource, obj = facts.resource, facts.obj
    if facts.view.deleting or facts.view.paused or facts.view.plan_only:
        return ""
    if is_powered(resource) and not predicates.running_wanted(obj, facts.now):
        return "stopped"
    has = shown.get("desired_replicas", shown.get("replicas"))
    asked = resource.capacity(obj, "").replicas if is_priced(resource) else has
    return "" if has is None or has == asked else f"scaled to {asked} replicas"


def _stopped(facts: Facts[SpecT, StatusT, ObsT], detail: str) -> Report:
    spec, now = facts.obj.spec, facts.now
    reason = Reason.MAX_RUNTIME_REACHED if predicates.runtime_used_up(facts.obj, now) else Reason.STOPPED
    if schedule.resting(spec, now) and not predicates.stopped_for_good(facts.obj, now):
        reason = Reason.OUTSIDE_SCHEDULE
        detail = f"{detail} until its schedule lets it run{schedule.until(spec, now)}"
    waits = reason is Reason.MAX_RUNTIME_REACHED or drain(facts.resource, facts.obj) is not None
    if facts.view.difference is Difference.NONE and waits and facts.note:
        detail = f"{detail}; {facts.note}"
    # If the balance stopped it, its deadline holds even if it should be stopped by now: the cloud does not know that.
    # It is over once there are funds; that of an interruption is over, too: what people stop is kept (section 3).
    before = facts.obj.status
    holds = before.state == "stopped" and not facts.funded_since
    deadline = workload.told(before).deletion_deadline if holds else None
    doom = "" if deadline is None else doomed(deadline)
    return Report("True", None, reason, detail + doom, Return.SETTLED, deletion_deadline=deadline)


def _runs(facts: Facts[SpecT, StatusT, ObsT]) -> bool:
    return facts.resource.runs or isinstance(facts.obj.spec, WorkloadSpec)
