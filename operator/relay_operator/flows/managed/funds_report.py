"""The report on what lacks funds or room in a budget, and until when the cloud keeps it. Pure."""

from dataclasses import replace
from datetime import datetime

from relay_client.errors import clause
from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.api.meta import rfc3339
from relay_operator.api.workload import SpecT, StatusT
from relay_operator.engine import conditions
from relay_operator.engine.conditions import Wanted
from relay_operator.engine.report import Report, unfunded
from relay_operator.flows.managed import predicates, workload
from relay_operator.flows.managed.facts import Facts
from relay_operator.flows.managed.resource import ObsT
from relay_operator.flows.managed.view import Seen

_SUPPOSED = "if the balance stopped it, it is "


def short_of_funds(facts: Facts[SpecT, StatusT, ObsT], refusal: Report) -> Report:
    """The report on a refusal for lack of funds; a stopped resource may have a deadline."""
    if facts.view.seen is not Seen.STOPPED:
        return unfunded(refusal)
    return held_back(facts, refusal, "" if refusal.reason is Reason.BALANCE_EXHAUSTED else _SUPPOSED)


def held_back(facts: Facts[SpecT, StatusT, ObsT], report: Report, supposed: str = _SUPPOSED) -> Report:
    """The report on what a budget holds back; a stopped resource may have a deadline."""
    exceeded = Wanted(ConditionType.BUDGET_EXCEEDED, "True", report.reason, report.message)
    deadline, told = kept_stopped(facts, supposed)
    if told:
        report = replace(report, message=clause(report.message) + told, deletion_deadline=deadline)
    return replace(report, extra=(exceeded,))


def kept_stopped(facts: Facts[SpecT, StatusT, ObsT], supposed: str = _SUPPOSED) -> tuple[datetime | None, str]:
    """As `kept`, for what is stopped; nothing for anything else, for what was stopped as asked, or has funds again.

    The cloud is not asked to start it, so that it cannot say whether the balance stopped it.
    """
    if facts.view.seen is not Seen.STOPPED or facts.funded_since or _stopped_as_asked(facts.obj.status):
        return None, ""
    return kept(facts, predicates.since_in(facts.obj, "stopped", facts.now), supposed)


def _stopped_as_asked(status: StatusT) -> bool:
    """Whether it was stopped before it was to run again, so that the cloud keeps it (section 3)."""
    ready = conditions.find(status.conditions, ConditionType.READY)
    if status.state != "stopped" or workload.told(status).deletion_deadline is not None or ready is None:
        return False
    # Only what was stopped as asked is Ready while it is stopped, whatever was reported after that.
    return ready.status == "True" or ready.last_transition_time > (status.state_since or ready.last_transition_time)


def kept(facts: Facts[SpecT, StatusT, ObsT], since: datetime, supposed: str = "") -> tuple[datetime | None, str]:
    """Until when the cloud keeps it, with a clause about that; None and empty if the cloud does not say."""
    if facts.resource.retention is None:
        return None, ""
    deadline = since + facts.resource.retention
    return deadline, doomed(deadline, supposed)


def doomed(deadline: datetime, supposed: str = "") -> str:
    return f"; {supposed}deleted by the cloud with its volume on {rfc3339(deadline)} unless it runs again"


def with_excess(facts: Facts[SpecT, StatusT, ObsT], report: Report) -> Report:
    told = {each.type for each in report.extra}
    if not facts.funded.excess or ConditionType.BUDGET_EXCEEDED in told:
        return report
    exceeded = Wanted(ConditionType.BUDGET_EXCEEDED, "True", Reason.BUDGET_EXCEEDED, facts.funded.excess)
    return replace(report, extra=(*report.extra, exceeded))
