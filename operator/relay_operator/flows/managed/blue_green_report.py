"""Reports on the two resources of one object: the old one, and the new one that replaces it. Pure."""

from dataclasses import replace

from relay_client.errors import clause
from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.api.meta import rfc3339
from relay_operator.api.workload import SpecT, StatusT
from relay_operator.engine.report import Report, Return
from relay_operator.flows.managed import actions
from relay_operator.flows.managed.actions import Action
from relay_operator.flows.managed.blue_green import blues, serving
from relay_operator.flows.managed.facts import Facts
from relay_operator.flows.managed.resource import ObsT
from relay_operator.flows.managed.view import Difference, Seen


def replacing(message: str, back: Return = Return.SOON) -> Report:
    """The report while the new one is created, takes the old one's place, or gives it back."""
    return Report("False", ConditionType.RECONCILING, Reason.REPLACING, message, back)


def of_action(facts: Facts[SpecT, StatusT, ObsT], action: Action) -> Report | None:
    """The report on an action about the two; None for any other action."""
    has, old = facts.obj.status.id, serving(facts.obj.status)
    match action:
        case actions.SetAside() if facts.view.difference is Difference.BLUE_GREEN:
            return replacing(f"a replacement for {has} is being created: {facts.note}")
        case actions.Replace() if old is not None:
            failed = facts.view.seen is Seen.FAILED and facts.observed is not None
            why = f"{facts.resource.detail(facts.observed)}; " if failed and facts.observed is not None else ""
            return replacing(f"{why}{has} is being ended, and {old.id} stays in service")
        case actions.Reinstate():
            return replacing("the old one stays in service")
        case actions.SwitchOver():
            return replacing(f"{has} is Ready, and `connection` is about to lead to it", Return.SHORTLY)
        case _:
            return None


def with_the_old(facts: Facts[SpecT, StatusT, ObsT], report: Report) -> Report:
    """The report, with a clause about the old resource in its message."""
    for old in blues(facts.obj.status):
        until = "serves until the new one is Ready" if old.until is None else f"is drained until {rfc3339(old.until)}"
        report = replace(report, message=f"{clause(report.message)}; {old.id} {until}")
    return report


def waiting(facts: Facts[SpecT, StatusT, ObsT]) -> Report:
    """The report while the new one that gives its place back ends, or the old one that is drained."""
    drained = [old.id for old in blues(facts.obj.status) if old.until is not None]
    word = "".join(f"; the replacement is created once {old}, which is being drained, is gone" for old in drained)
    return replacing(f"{facts.note}{word}", Return.SHORTLY)


def failed(facts: Facts[SpecT, StatusT, ObsT]) -> str:
    """Why no other one is created."""
    return f"{facts.note}: it was ended, and {facts.obj.status.id} stays in service; change the spec to try again"
