"""What status counts: runs, failures and recoveries; and when the next attempt is due."""

from datetime import timedelta

import pytest
from pydantic import JsonValue

from relay_client import CapacityExhausted, RateLimited
from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.engine.backoff import Backoff, RetryPolicy
from relay_operator.engine.report import Report, RetryKind
from relay_operator.flows.managed import actions
from relay_operator.flows.managed.actions import RESTART, START, Action
from relay_operator.flows.managed.result import Accepted, Rejected, Result, Sent
from relay_operator.flows.managed.view import Difference, Recovery, Seen, View
from relay_operator.kinds.gpupod import GpuPod
from relay_wire.vms import VmRecord
from tests.unit.flows.managed.facts import INTENT, NOW, ago, pod, record
from tests.unit.flows.managed.outcomes import KEEP, NOTHING, READY, REFUSED, REFUSED_START, written

GOES_ON = Report("False", ConditionType.RECONCILING, Reason.DEPLOYING, "goes on")
FULL = Report("False", ConditionType.RECONCILING, Reason.WAITING_FOR_CAPACITY, "full", retry=RetryKind.QUICK)

CLOCKS: dict[str, tuple[GpuPod, Action, Result[VmRecord], VmRecord | None, str | None]] = {
    "it runs": (pod(), KEEP, NOTHING, record(), ago(0)),
    "it goes on running": (pod(status={"runningSince": ago(60)}), KEEP, NOTHING, record(), ago(60)),
    "it is on its way": (pod(status={"runningSince": ago(60)}), KEEP, NOTHING, record("deploying"), ago(60)),
    "it stopped": (pod(status={"runningSince": ago(60)}), KEEP, NOTHING, record("stopped"), None),
    "it was interrupted": (pod(status={"runningSince": ago(60)}), KEEP, NOTHING, record("interrupted"), None),
    "it failed": (pod(status={"runningSince": ago(60)}), KEEP, NOTHING, record("failed"), None),
    "it stopped since its time is up": (
        pod({"lifetime": {"maxRuntimeSeconds": 60}}, {"runningSince": ago(60)}),
        KEEP,
        NOTHING,
        record("stopped"),
        ago(60),
    ),
    "a restart was sent": (
        pod(status={"runningSince": ago(60)}),
        actions.Update(RESTART),
        Sent(),
        record(),
        None,
    ),
    "a change was sent": (
        pod(status={"runningSince": ago(60)}),
        actions.Update("visibility"),
        Sent(),
        record(),
        ago(60),
    ),
    "it was created and runs": (pod(), actions.Create(), Accepted(record(), INTENT), None, ago(0)),
    "it was created": (pod(), actions.Create(), Accepted(record("deploying"), INTENT), None, None),
    "it was not looked at": (pod(status={"runningSince": ago(60)}), KEEP, NOTHING, None, ago(60)),
}


@pytest.mark.parametrize(("obj", "action", "result", "observed", "since"), CLOCKS.values(), ids=CLOCKS)
def test_a_run_counts_from(
    obj: GpuPod, action: Action, result: Result[VmRecord], observed: VmRecord | None, since: str | None
) -> None:
    status = written(obj, action, result, observed=observed)
    assert (status.running_since.isoformat() if status.running_since else None) == since


@pytest.mark.parametrize(("state", "seconds"), [("running", 60), ("stopped", 0)], ids=["same", "another"])
def test_a_state_counts_from_when_it_was_first_seen(state: str, seconds: int) -> None:
    status = written(pod(status={"state": "running", "stateSince": ago(60)}), observed=record(state))
    assert status.state_since == NOW - timedelta(seconds=seconds)


FAILURES: dict[str, tuple[GpuPod, Result[VmRecord], Report, View, int | None]] = {
    "none so far": (pod(), NOTHING, READY, View(), None),
    "a first": (pod(), NOTHING, REFUSED, View(), 1),
    "another": (pod(status={"failures": 3}), NOTHING, REFUSED, View(), 4),
    "none any more, it was made": (pod(status={"failures": 3}), Accepted(record(), INTENT), READY, View(), None),
    "as many, it has only begun to run": (pod(status={"failures": 3}), NOTHING, READY, View(), 3),
    "as many, it ran for a while": (
        pod(status={"failures": 3, "runningSince": ago(599)}),
        NOTHING,
        READY,
        View(),
        3,
    ),
    "none any more, it lasts": (
        pod(status={"failures": 3, "runningSince": ago(600)}),
        NOTHING,
        READY,
        View(),
        None,
    ),
    "as many, a restart is none": (
        pod(status={"failures": 3}),
        Sent(),
        GOES_ON,
        View(seen=Seen.FAILED, recovery=Recovery.RESTART),
        3,
    ),
}


@pytest.mark.parametrize(("obj", "result", "report", "view", "failures"), FAILURES.values(), ids=FAILURES)
def test_failures_in_a_row(
    obj: GpuPod, result: Result[VmRecord], report: Report, view: View, failures: int | None
) -> None:
    assert written(obj, actions.Update(START), result, report, view=view).failures == failures


AGAIN = View(seen=Seen.FAILED, recovery=Recovery.RESTART)
ANEW = View(seen=Seen.FAILED, recovery=Recovery.RECREATE)
RECOVERED: dict[str, tuple[GpuPod, Action, Result[VmRecord], Report, View, int | None]] = {
    "a restart": (pod(), actions.Update(START), Sent(), GOES_ON, AGAIN, 1),
    "another": (pod(status={"recoveries": 3}), actions.Update(START), Sent(), GOES_ON, AGAIN, 4),
    "not one that was refused": (pod(), actions.Update(START), REFUSED_START, GOES_ON, AGAIN, None),
    "not one that a person asked for": (
        pod(),
        actions.Update(RESTART),
        Sent(),
        GOES_ON,
        View(seen=Seen.FAILED, recovery=Recovery.RESTART, difference=Difference.CHANGE),
        None,
    ),
    "not a start of what was stopped": (
        pod(),
        actions.Update(START),
        Sent(),
        GOES_ON,
        View(seen=Seen.STOPPED),
        None,
    ),
    "a recreation": (pod(), actions.Replace(), NOTHING, GOES_ON, ANEW, 1),
    "a replacement of what differs by itself": (pod(), actions.Replace(), NOTHING, GOES_ON, View(), 1),
    "not a change of the spec": (pod(generation=2), actions.Replace(), NOTHING, GOES_ON, View(), None),
    "not a recreation twice": (
        pod(status={"recoveries": 1}),
        actions.Forget(),
        NOTHING,
        GOES_ON,
        View(seen=Seen.GONE, recovery=Recovery.RECREATE, replacing=True),
        1,
    ),
    "one of what was ended by another hand": (
        pod(),
        actions.Forget(),
        NOTHING,
        GOES_ON,
        View(seen=Seen.GONE, recovery=Recovery.RECREATE),
        1,
    ),
    "none any more, it lasts": (
        pod(status={"recoveries": 3, "runningSince": ago(600)}),
        KEEP,
        NOTHING,
        READY,
        View(seen=Seen.READY),
        None,
    ),
    "as many, it was made": (
        pod(status={"recoveries": 3}),
        actions.Create(),
        Accepted(record(), INTENT),
        READY,
        View(),
        3,
    ),
}


@pytest.mark.parametrize(("obj", "action", "result", "report", "view", "recoveries"), RECOVERED.values(), ids=RECOVERED)
def test_recoveries_in_a_row(
    obj: GpuPod, action: Action, result: Result[VmRecord], report: Report, view: View, recoveries: int | None
) -> None:
    assert written(obj, action, result, report, view=view).recoveries == recoveries


MODELS: dict[str, JsonValue] = {"gpu": {"modelIds": ["a", "b"]}}
REFUSED_CREATE = Rejected(CapacityExhausted("c", "m"), INTENT)
WAITS: dict[str, tuple[GpuPod, Result[VmRecord], Report, int | None]] = {
    "none was agreed": (pod(status={"nextAttemptTime": ago(9)}), NOTHING, READY, None),
    "a first refusal, in whole seconds": (pod(), NOTHING, REFUSED, 1),
    "a fifth": (pod(status={"failures": 4}), NOTHING, REFUSED, 8),
    "no room, and another model to try": (pod(MODELS), REFUSED_CREATE, FULL, None),
    "no room, and one model alone": (pod(), REFUSED_CREATE, FULL, 1),
    "no room for a start": (pod(MODELS), Rejected(CapacityExhausted("c", "m")), FULL, 1),
    "another refusal with a list of models": (pod(MODELS), Rejected(RateLimited("c", "m"), INTENT), REFUSED, 1),
}


@pytest.mark.parametrize(("obj", "result", "report", "seconds"), WAITS.values(), ids=WAITS)
def test_the_next_attempt(obj: GpuPod, result: Result[VmRecord], report: Report, seconds: int | None) -> None:
    due = written(obj, actions.Create(), result, report).next_attempt_time
    assert due == (None if seconds is None else NOW + timedelta(seconds=seconds))


@pytest.mark.parametrize(("full", "seconds"), [(0, None), (1, 1), (2, None), (3, 1)])
def test_a_wait_follows_the_last_model(full: int, seconds: int | None) -> None:
    due = written(pod(MODELS), actions.Create(), REFUSED_CREATE, FULL, full=full).next_attempt_time
    assert due == (None if seconds is None else NOW + timedelta(seconds=seconds))


PACES: dict[str, tuple[RetryKind, float | None, float, float]] = {
    "quick": (RetryKind.QUICK, None, 2.0, 4.0),
    "quick, whatever was advised": (RetryKind.QUICK, 60.0, 2.0, 4.0),
    "slow": (RetryKind.SLOW, None, 300.0, 300.0),
    "advised": (RetryKind.ADVISED, 60.0, 60.0, 75.0),
    "advised too much": (RetryKind.ADVISED, 86_400.0, 300.0, 375.0),
    "advised nothing": (RetryKind.ADVISED, 0.0, 1.0, 1.25),
    "not advised": (RetryKind.ADVISED, None, 2.0, 4.0),
}


@pytest.mark.parametrize(("pace", "retry_after", "least", "most"), PACES.values(), ids=PACES)
def test_how_long_to_wait(pace: RetryKind, retry_after: float | None, least: float, most: float) -> None:
    assert RetryPolicy(Backoff(1.0, 300.0), lambda: 0.0).wait(pace, retry_after, 3) == least
    assert RetryPolicy(Backoff(1.0, 300.0), lambda: 1.0).wait(pace, retry_after, 3) == most
