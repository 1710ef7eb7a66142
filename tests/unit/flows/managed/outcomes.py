"""What a pass tells, and the status that it writes, from what a test says and sensible defaults."""

from dataclasses import replace

from relay_client import CloudError, RateLimited
from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.engine.actions import Keep, Nothing
from relay_operator.engine.backoff import Backoff, RetryPolicy
from relay_operator.engine.report import Report, RetryKind
from relay_operator.flows.managed.actions import Action
from relay_operator.flows.managed.facts import Facts
from relay_operator.flows.managed.predicates import models_of
from relay_operator.flows.managed.report import report_of
from relay_operator.flows.managed.result import Rejected, Result
from relay_operator.flows.managed.status import new_status
from relay_operator.flows.managed.view import View
from relay_operator.kinds.gpupod import GpuPod, GpuPodStatus
from relay_wire.vms import VmRecord
from tests.unit.flows.managed.facts import INTENT, NOW, PODS, PodFacts, account

RECONCILING, STALLED = ConditionType.RECONCILING, ConditionType.STALLED
PACING = RetryPolicy(Backoff(1.0, 300.0), lambda: 0.0)
KEEP, NOTHING = Keep(), Nothing()
READY = Report("True", None, Reason.RUNNING, "runs")
REFUSED = Report("False", ConditionType.RECONCILING, Reason.RATE_LIMITED, "slow down", retry=RetryKind.QUICK)
REFUSED_START = Rejected(RateLimited("c", "m"))


def written(
    obj: GpuPod,
    action: Action = KEEP,
    result: Result[VmRecord] = NOTHING,
    report: Report = READY,
    *,
    observed: VmRecord | None = None,
    view: View | None = None,
    error: CloudError | None = None,
    env_digest: str = "",
    full: int = 0,
) -> GpuPodStatus:
    facts = Facts(PODS, obj.key, obj, NOW, account(), view or View(), INTENT, observed, error, env_digest=env_digest)
    facts = replace(facts, models=models_of(PODS, obj), full=full)
    return new_status(facts, action, result, report, PACING)


def report(
    known: PodFacts, action: Action, result: Result[VmRecord] | None = None, *, unreachable: bool = False
) -> Report:
    told = report_of(known, action, result or Nothing(), unreachable=unreachable)
    assert told is not None
    return told
