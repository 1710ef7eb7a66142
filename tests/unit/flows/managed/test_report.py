"""What status says of what the cloud has, of what was made, found or sent, and of a step that another follows."""

from dataclasses import replace

import pytest

from relay_client import Cloud, PaymentRequired
from relay_operator.api.conditions import Reason
from relay_operator.engine.actions import Keep, Nothing
from relay_operator.engine.backoff import Backoff, RetryPolicy
from relay_operator.engine.report import Return
from relay_operator.engine.shared_lists import SharedLists
from relay_operator.flows.managed import actions
from relay_operator.flows.managed.actions import RESTART, START, STOP, Action
from relay_operator.flows.managed.facts import Facts
from relay_operator.flows.managed.report import report_of
from relay_operator.flows.managed.resource import Change, power
from relay_operator.flows.managed.result import Accepted, Rejected, Sent
from relay_operator.flows.managed.status import new_status
from relay_operator.flows.managed.view import Demand, Recovery, Seen, Undecided, View
from relay_operator.kinds.gpucluster import GpuCluster, GpuClusters, GpuClusterSpec, GpuClusterStatus, SeenCluster
from relay_operator.kinds.gpupod import GpuPod
from relay_wire.clusters import ClusterSummary
from relay_wire.vms import VmRecord
from tests.unit.flows.managed.facts import INTENT, NOW, PodFacts, account, ago, facts, pod, record
from tests.unit.flows.managed.outcomes import RECONCILING, STALLED, report

STATES: dict[str, tuple[VmRecord, tuple[object, ...]]] = {
    "running": (record(), ("True", None, Reason.RUNNING, Return.SETTLED)),
    "stopped": (record("stopped"), ("True", None, Reason.STOPPED, Return.SETTLED)),
    "deploying": (record("deploying"), ("False", RECONCILING, Reason.DEPLOYING, Return.TRANSITION)),
    "a word nobody knows": (record("thinking"), ("False", RECONCILING, Reason.DEPLOYING, Return.TRANSITION)),
    "interrupted": (record("interrupted"), ("False", RECONCILING, Reason.INTERRUPTED, Return.TRANSITION)),
    "failed": (record("failed"), ("False", STALLED, Reason.FAILED, Return.SETTLED)),
    "terminated": (record("terminated"), ("False", RECONCILING, Reason.DEPLOYING, Return.TRANSITION)),
}


@pytest.mark.parametrize(("observed", "expected"), STATES.values(), ids=STATES)
def test_what_is_left_to_itself_speaks_for_itself(observed: VmRecord, expected: tuple[object, ...]) -> None:
    told = report(facts(observed=observed), Keep())
    assert (told.ready, told.trouble, told.reason, told.back) == expected
    assert observed.status in told.message


def test_a_run_that_used_up_its_time_says_so() -> None:
    obj = pod({"lifetime": {"maxRuntimeSeconds": 60}}, {"runningSince": ago(60)})
    told = report(facts(obj=obj, observed=record("stopped")), Keep())
    assert (told.ready, told.reason) == ("True", Reason.MAX_RUNTIME_REACHED)


CREATED: dict[str, tuple[GpuPod, str, tuple[object, ...]]] = {
    "on its way": (pod(), "deploying", ("False", Reason.DEPLOYING, Return.TRANSITION)),
    "there at once": (pod(), "running", ("True", Reason.RUNNING, Return.SETTLED)),
    "there, and to be stopped": (pod({"powerState": "Stopped"}), "running", ("False", Reason.CREATING, Return.SOON)),
}


@pytest.mark.parametrize(("obj", "state", "expected"), CREATED.values(), ids=CREATED)
def test_what_was_created_is(obj: GpuPod, state: str, expected: tuple[object, ...]) -> None:
    told = report(facts(obj=obj), actions.Create(), Accepted(record(state), INTENT))
    assert (told.ready, told.reason, told.back) == expected


@pytest.mark.parametrize(
    ("demand", "reason"), [(Demand.EXIST, Reason.ADOPTING), (Demand.DELETE, Reason.DELETING)], ids=["kept", "deleted"]
)
def test_what_was_found_is_looked_at_again_at_once(demand: Demand, reason: Reason) -> None:
    told = report(facts(View(demand=demand)), actions.Adopt(), Accepted(record(), INTENT))
    assert (told.ready, told.reason, told.back) == ("False", reason, Return.SOON)


async def _unsent(_: Cloud) -> None:
    raise AssertionError("what is told is not sent")


SCALE = Change("scale", Reason.SCALING, _unsent)
SENT: dict[str, tuple[View, Action, Change | None, Reason, Return]] = {
    "a stop": (View(), actions.Update(STOP), power(STOP, _unsent), Reason.STOPPING, Return.TRANSITION),
    "a start": (View(), actions.Update(START), power(START, _unsent), Reason.STARTING, Return.TRANSITION),
    "a restart": (View(), actions.Update(RESTART), power(RESTART, _unsent), Reason.RESTARTING, Return.SHORTLY),
    "a scaling": (View(), actions.Update("scale"), SCALE, Reason.SCALING, Return.SHORTLY),
    "a scaling that is not seen so far": (View(), actions.Watch("scale"), SCALE, Reason.SCALING, Return.SHORTLY),
    "a termination": (View(demand=Demand.DELETE), actions.Delete(), None, Reason.DELETING, Return.TRANSITION),
    "a replacement's termination": (View(replacing=True), actions.Delete(), None, Reason.RECREATING, Return.TRANSITION),
    "a termination while replacing": (
        View(demand=Demand.DELETE, replacing=True),
        actions.Delete(),
        None,
        Reason.DELETING,
        Return.TRANSITION,
    ),
}


@pytest.mark.parametrize(("view", "action", "change", "reason", "back"), SENT.values(), ids=SENT)
def test_what_was_sent_is_on_its_way(
    view: View, action: Action, change: Change | None, reason: Reason, back: Return
) -> None:
    told = report(facts(view), action, Sent(change))
    assert (told.ready, told.trouble, told.reason, told.back) == ("False", RECONCILING, reason, back)


DECIDED: dict[str, tuple[PodFacts, Action, tuple[Reason, str]]] = {
    "a replacement that a change asks for": (
        facts(note="image"),
        actions.Replace(),
        (Reason.RECREATING, "image"),
    ),
    "a replacement that a recovery asks for": (
        facts(View(recovery=Recovery.RECREATE)),
        actions.Replace(),
        (Reason.RECREATING, "recovery: recreate"),
    ),
    "what is gone is forgotten": (facts(), actions.Forget(), (Reason.RECREATING, "recreating it")),
    "an attempt that came to nothing": (
        facts(),
        actions.CloseIntent(),
        (Reason.CREATING, "the last attempt had no effect"),
    ),
    "an attempt that a person gave up": (
        facts(View(undecided=Undecided.GIVE_UP), note="look in the cloud"),
        actions.CloseIntent(),
        (Reason.CREATING, "gpurelay.dev/retry-create says that the last attempt had no effect"),
    ),
    "an attempt of another": (facts(note="copied"), actions.CloseIntent(), (Reason.CREATING, "copied")),
}


@pytest.mark.parametrize(("known", "action", "expected"), DECIDED.values(), ids=DECIDED)
def test_a_step_that_another_follows_comes_back_at_once(
    known: PodFacts, action: Action, expected: tuple[Reason, str]
) -> None:
    told = report(known, action)
    assert (told.reason, told.message) == expected
    assert (told.ready, told.trouble, told.back) == ("False", RECONCILING, Return.SOON)


CLUSTERS = GpuClusters(SharedLists(60.0, lambda: 0.0))


def cluster_facts(view: View, status: str) -> Facts[GpuClusterSpec, GpuClusterStatus, SeenCluster]:
    obj = GpuCluster.model_validate({"metadata": {"name": "serve", "namespace": "team-a"}, "spec": {"replicas": 2}})
    summary = ClusterSummary(
        id="cl-1", organization_id="org-1", name="n", status=status, replica_count=2, active_replicas=1
    )
    return Facts(CLUSTERS, obj.key, obj, NOW, account(), view, INTENT, SeenCluster(summary))


def test_a_degraded_cluster_is_not_ready_and_says_how_many_are() -> None:
    told = report_of(cluster_facts(View(), "degraded"), Keep(), Nothing(), unreachable=False)
    assert told is not None
    assert (told.ready, told.trouble, told.reason) == ("False", RECONCILING, Reason.DEGRADED)
    assert told.message == "the cloud says degraded, 1 of 2 replicas healthy"


@pytest.mark.parametrize(
    ("status", "told"), [("provisioning", "it is scaled to 4 replicas as soon as it runs; "), ("running", "")]
)
def test_a_scale_that_the_cloud_refuses_until_a_cluster_runs_is_told(status: str, told: str) -> None:
    facts = cluster_facts(View(seen=Seen.PENDING), status)
    grown = facts.obj.model_copy(update={"spec": facts.obj.spec.model_copy(update={"replicas": 4})})
    report = report_of(replace(facts, obj=grown), Keep(), Nothing(), unreachable=False)
    assert report is not None
    assert report.message == f"{told}the cloud says {status}, 1 of 2 replicas healthy"


def test_a_cluster_that_is_degraded_from_the_beginning_runs_since_then() -> None:
    degraded = cluster_facts(View(seen=Seen.READY), "degraded")
    told = report_of(degraded, Keep(), Nothing(), unreachable=False)
    assert told is not None
    policy = RetryPolicy(Backoff(1.0, 300.0), lambda: 0.0)
    assert new_status(degraded, Keep(), Nothing(), told, policy).running_since == NOW


def test_a_cluster_without_funds_has_no_day_on_which_it_is_deleted() -> None:
    known = cluster_facts(View(seen=Seen.STOPPED), "stopped")
    refused = Rejected(PaymentRequired("c", "balance too low"))
    told = report_of(known, actions.Update(START), refused, unreachable=False)
    assert told is not None
    assert (told.trouble, told.reason, told.deletion_deadline) == (STALLED, Reason.BALANCE_EXHAUSTED, None)
    assert told.message == "balance too low"
