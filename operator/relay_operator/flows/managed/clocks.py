"""Since when a workload runs or is stopped, and how often it was started again, for its status. Pure."""

from datetime import datetime

from relay_operator.api import meta
from relay_operator.api.workload import SpecT, StatusT
from relay_operator.engine.report import Report
from relay_operator.flows.managed import actions, blue_green, predicates, recovery
from relay_operator.flows.managed.actions import RESTART, START, Action
from relay_operator.flows.managed.facts import Facts
from relay_operator.flows.managed.resource import ObsT, Progress
from relay_operator.flows.managed.result import Accepted, Result, Sent, Switched
from relay_operator.flows.managed.view import Difference, Recovery
from relay_operator.flows.managed.workload import told

_RUNS = frozenset({Progress.READY, Progress.DEGRADED})
_ENDS_A_RUN = frozenset({Progress.STOPPED, Progress.INTERRUPTED, Progress.FAILED})


def clocks(
    facts: Facts[SpecT, StatusT, ObsT], action: Action, result: Result[ObsT], observed: ObsT | None, state: str | None
) -> dict[str, object]:
    """The echo of the restart, and since when the workload has been running or stopped."""
    begun, status = isinstance(result, Accepted), facts.obj.status
    changed: dict[str, object] = {"restarted_at": _echo(facts)} if begun else {}
    changed["running_since"] = _running_since(facts, result, observed, state, begun=begun)
    changed |= begins(facts, action, result)
    if observed is not None and not isinstance(result, Sent):
        stopped = facts.resource.progress(observed) is Progress.STOPPED
        as_asked = stopped and predicates.stopped_for_good(facts.obj, facts.now)
        changed["stopped_since"] = (told(status).stopped_since or facts.now) if as_asked else None
    return changed


def begins(facts: Facts[SpecT, StatusT, ObsT], action: Action, result: Result[ObsT]) -> dict[str, object]:
    """What status says of a start or restart that was sent, whatever the cloud shows; empty if none was."""
    start = isinstance(action, actions.Update) and action.change in {START, RESTART}
    if not start or not isinstance(result, Sent):
        return {}
    return {
        "state_since": facts.now,  # the same state after this is a new failure
        "restarted_at": _echo(facts),
        "running_since": _running_since(facts, result, None, None, begun=True),
        "recoveries": _restarts(facts),
    }


def recoveries(facts: Facts[SpecT, StatusT, ObsT], action: Action, result: Result[ObsT], report: Report) -> int | None:
    """Consecutive restarts and recreations: counted when they begin, forgotten after a long run."""
    obj, view = facts.obj, facts.view
    if report.ready == "True" and recovery.lasted(obj, facts.now):
        return None
    if isinstance(action, actions.Replace) or (isinstance(action, actions.Forget) and not view.replacing):
        return recovery.counted(obj, view.seen, view.recovery, facts.now) or None
    if begins(facts, action, result):
        return _restarts(facts)
    return recovery.in_a_row(obj, view.seen, facts.now) or None  # a long run may end in this pass


def _echo(facts: Facts[SpecT, StatusT, ObsT]) -> str | None:
    """The last request for a restart; kept without the annotation: the same value, put back, is no new one."""
    return facts.obj.metadata.echo(meta.RESTARTED_AT) or told(facts.obj.status).restarted_at


def _restarts(facts: Facts[SpecT, StatusT, ObsT]) -> int | None:
    """Consecutive restarts and recreations, with the start that was sent unless people requested that."""
    obj, view = facts.obj, facts.view
    if view.difference is not Difference.CHANGE and view.recovery is Recovery.RESTART:
        return recovery.counted(obj, view.seen, view.recovery, facts.now)
    return recovery.in_a_row(obj, view.seen, facts.now) or None


def _running_since(
    facts: Facts[SpecT, StatusT, ObsT],
    result: Result[ObsT],
    observed: ObsT | None,
    state: str | None,
    *,
    begun: bool,
) -> datetime | None:
    """The start of the present run, of which `begun` is the first pass; what may cost something runs.

    As long as an old one serves, its run goes on: one beside it that never is Ready gives it no more time.
    """
    since = told(facts.obj.status).running_since
    if isinstance(result, Switched):
        return facts.now
    if blue_green.serving(facts.obj.status) is not None:
        return facts.now if begun and predicates.restart_asked(facts.obj) else since
    since = None if begun else since
    if observed is None or isinstance(result, Sent):
        return since
    progress = facts.resource.progress(observed)
    if progress in _ENDS_A_RUN and not predicates.runtime_used_up(facts.obj, facts.now):
        return None
    runs = progress in _RUNS or state in facts.resource.costs_early
    return facts.now if since is None and runs else since
