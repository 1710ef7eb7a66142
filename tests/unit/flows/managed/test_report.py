"""What status says of every outcome: one row each."""

from dataclasses import replace

import pytest

from relay_client import (
    BadRequest,
    CapacityExhausted,
    CircuitOpen,
    Cloud,
    CloudError,
    CloudUnavailable,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    NotServed,
    PaymentRequired,
    RateLimited,
    Unauthorized,
    Unreadable,
)
from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.engine.account import AccountRefused, AccountState, AccountWaiting
from relay_operator.engine.actions import Expire, Ignore, Keep, Nothing, Release, Stall, Wait
from relay_operator.engine.backoff import Backoff, RetryPolicy
from relay_operator.engine.report import Report, RetryKind, Return, refusal
from relay_operator.engine.shared_lists import SharedLists
from relay_operator.flows.managed import actions
from relay_operator.flows.managed.actions import RESTART, START, STOP, Action
from relay_operator.flows.managed.facts import Facts
from relay_operator.flows.managed.plan import Demand, Recovery, Seen, View
from relay_operator.flows.managed.report import report_of
from relay_operator.flows.managed.resource import Change, power
from relay_operator.flows.managed.result import Accepted, OutcomeUnknown, Rejected, Result, Sent
from relay_operator.flows.managed.status import new_status
from relay_operator.kinds.gpucluster import GpuCluster, GpuClusters, GpuClusterSpec, GpuClusterStatus, SeenCluster
from relay_operator.kinds.gpupod import GpuPod
from relay_wire.clusters import ClusterSummary
from relay_wire.vms import VmRecord
from tests.unit.flows.managed.facts import INTENT, NOW, PODS, PodFacts, account, ago, pod, record

RECONCILING, STALLED = ConditionType.RECONCILING, ConditionType.STALLED
NO_ACCOUNT = AccountWaiting(Reason.SECRET_MISSING, "the Secret is missing")
REFUSED = AccountRefused(Reason.ACCOUNT_UNAUTHORIZED, "the key is refused")


def facts(
    view: View | None = None,
    obj: GpuPod | None = None,
    *,
    observed: VmRecord | None = None,
    error: CloudError | None = None,
    note: str = "",
    state: AccountState | None = None,
) -> PodFacts:
    made = obj or pod()
    return Facts(PODS, made.key, made, NOW, state or account(), view or View(), INTENT, observed, error, note)


def report(
    known: PodFacts, action: Action, result: Result[VmRecord] | None = None, *, unreachable: bool = False
) -> Report:
    told = report_of(known, action, result or Nothing(), unreachable=unreachable)
    assert told is not None
    return told


ERRORS: dict[str, tuple[CloudError, Reason, bool, RetryKind]] = {
    "no room": (CapacityExhausted("c", "m"), Reason.WAITING_FOR_CAPACITY, False, RetryKind.ADVISED),
    "too often": (RateLimited("c", "m"), Reason.RATE_LIMITED, False, RetryKind.ADVISED),
    "no funds": (PaymentRequired("c", "m"), Reason.BALANCE_EXHAUSTED, True, RetryKind.SLOW),
    "key refused": (Unauthorized("c", "m"), Reason.ACCOUNT_UNAUTHORIZED, True, RetryKind.ADVISED),
    "key refused a moment ago": (CircuitOpen("c", "m"), Reason.ACCOUNT_UNAUTHORIZED, True, RetryKind.ADVISED),
    "scope lacking": (Forbidden("c", "m"), Reason.ACCOUNT_FORBIDDEN, True, RetryKind.SLOW),
    "malformed": (BadRequest("c", "m"), Reason.SPEC_INVALID, True, RetryKind.SLOW),
    "meaningless": (Invalid("c", "m"), Reason.SPEC_INVALID, True, RetryKind.SLOW),
    "no such call": (NotServed("c", "m"), Reason.NOT_SERVED, True, RetryKind.SLOW),
    "not now": (Conflict("c", "m"), Reason.CONFLICT, False, RetryKind.QUICK),
    "not now, of an unknown code": (Conflict("c", "m", code="NEW"), Reason.CONFLICT, False, RetryKind.QUICK),
    "node busy": (Conflict("c", "m", code="POD_NODE_BUSY"), Reason.POD_NODE_BUSY, False, RetryKind.QUICK),
    "node offline": (Conflict("c", "m", code="POD_NODE_OFFLINE"), Reason.POD_NODE_OFFLINE, False, RetryKind.QUICK),
    "stopping": (Conflict("c", "m", code="POD_STOPPING"), Reason.POD_STOPPING, False, RetryKind.QUICK),
    "no InfiniBand": (
        Conflict("c", "m", code="POD_NODE_NO_INFINIBAND"),
        Reason.POD_NODE_NO_INFINIBAND,
        True,
        RetryKind.SLOW,
    ),
    "a conflict's code elsewhere means nothing": (
        RateLimited("c", "m", code="POD_NODE_BUSY"),
        Reason.RATE_LIMITED,
        False,
        RetryKind.ADVISED,
    ),
    "not found": (NotFound("c", "m"), Reason.CONFLICT, False, RetryKind.QUICK),
    "gone": (Gone("c", "m"), Reason.CONFLICT, False, RetryKind.QUICK),
    "no answer": (CloudUnavailable("c", "m"), Reason.CLOUD_UNAVAILABLE, False, RetryKind.ADVISED),
    "no answer of the cloud": (Unreadable("c", "m"), Reason.CLOUD_UNAVAILABLE, False, RetryKind.ADVISED),
}


@pytest.mark.parametrize(("error", "reason", "stalled", "pace"), ERRORS.values(), ids=ERRORS)
def test_a_refusal_reads_as(error: CloudError, reason: Reason, stalled: bool, pace: RetryKind) -> None:
    row = refusal(error)
    assert (row.reason, row.stalled, row.retry) == (reason, stalled, pace)


def test_a_refusal_is_told_in_the_clouds_words_and_keeps_its_retry_after() -> None:
    told = report(facts(), actions.Create(), Rejected(RateLimited("c", "slow down", retry_after=9.0), INTENT))
    assert (told.ready, told.trouble, told.message, told.retry_after) == ("False", RECONCILING, "slow down", 9.0)


def test_no_room_is_a_condition_of_its_own() -> None:
    told = report(facts(), actions.Create(), Rejected(CapacityExhausted("c", "full", code="NODE_AT_CAPACITY")))
    assert [(item.type, item.status, item.message) for item in told.extra] == [
        (ConditionType.CAPACITY_AVAILABLE, "False", "NODE_AT_CAPACITY: full")
    ]


def test_no_funds_for_something_new_is_waited_for() -> None:
    told = report(facts(View()), actions.Create(), Rejected(PaymentRequired("c", "balance too low")))
    assert (told.trouble, told.reason, told.deletion_deadline) == (RECONCILING, Reason.WAITING_FOR_BUDGET, None)
    assert [item.type for item in told.extra] == [ConditionType.BUDGET_EXCEEDED]


def test_no_funds_for_what_is_stopped_tells_until_when_it_is_kept() -> None:
    known = facts(View(seen=Seen.STOPPED), pod(status={"state": "stopped", "stateSince": ago(0)}))
    told = report(known, actions.Update(START), Rejected(PaymentRequired("c", "balance too low.")))
    assert (told.trouble, told.reason) == (STALLED, Reason.BALANCE_EXHAUSTED)
    assert told.message == (
        "balance too low; deleted by the cloud with its volume on 2026-03-08T12:00:00Z unless it runs again"
    )


UNKNOWNS: dict[str, tuple[Action, CloudError, tuple[object, ...]]] = {
    "a create is looked for": (
        actions.Create(),
        CloudUnavailable("create_pod", "timed out"),
        (RECONCILING, Return.SOON, None),
    ),
    "one sent again keeps a pace": (
        actions.Resend(),
        CloudUnavailable("create_pod", "timed out"),
        (RECONCILING, Return.TRANSITION, RetryKind.QUICK),
    ),
    "a name that is taken is for people": (
        actions.Resend(),
        Conflict("create_pod", "exists"),
        (STALLED, Return.SETTLED, RetryKind.SLOW),
    ),
}


@pytest.mark.parametrize(("action", "error", "expected"), UNKNOWNS.values(), ids=UNKNOWNS)
def test_of_lost_answers(action: Action, error: CloudError, expected: tuple[object, ...]) -> None:
    told = report(facts(), action, OutcomeUnknown(error, INTENT))
    assert (told.trouble, told.back, told.retry) == expected
    assert [item.type for item in told.extra] == [ConditionType.CREATE_OUTCOME_UNKNOWN]
    assert str(error) in told.message


def test_what_is_unknown_names_the_token_where_there_is_one() -> None:
    known = facts(note="look for 'x'")
    told = report(known, Stall(Reason.CREATE_OUTCOME_UNKNOWN))
    assert "look for 'x'" in told.message
    assert "retry-create=t1" in told.message
    told = report(replace(known, intent=None), Stall(Reason.CREATE_OUTCOME_UNKNOWN))
    assert told.message.endswith(
        "run: kubectl annotate --overwrite -n team-a gpupod train gpurelay.dev/retry-create=yes"
    )


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
    "an attempt of another": (facts(note="copied"), actions.CloseIntent(), (Reason.CREATING, "copied")),
}


@pytest.mark.parametrize(("known", "action", "expected"), DECIDED.values(), ids=DECIDED)
def test_a_step_that_another_follows_comes_back_at_once(
    known: PodFacts, action: Action, expected: tuple[Reason, str]
) -> None:
    told = report(known, action)
    assert (told.reason, told.message) == expected
    assert (told.ready, told.trouble, told.back) == ("False", RECONCILING, Return.SOON)


SILENT: dict[str, tuple[PodFacts, Action]] = {
    "an agreed wait": (facts(), Wait(Reason.WAITING_FOR_RETRY)),
    "a first look without an answer": (
        facts(error=CloudUnavailable("c", "m")),
        Wait(Reason.CLOUD_UNAVAILABLE),
    ),
    "a cloud that was not asked": (facts(), Wait(Reason.CLOUD_UNAVAILABLE)),
    "letting go": (facts(), Release()),
    "not ours": (facts(), Ignore()),
    "the object's own end": (facts(), Expire()),
    "keeping what was not looked at": (facts(), Keep()),
}


@pytest.mark.parametrize(("known", "action"), SILENT.values(), ids=SILENT)
def test_status_stays_as_it_is_at(known: PodFacts, action: Action) -> None:
    assert report_of(known, action, Nothing(), unreachable=False) is None


MADE = pod(status={"id": "pod-1"})
WAITS: dict[str, tuple[PodFacts, Action, bool, tuple[object, ...]]] = {
    "paused": (facts(), Wait(Reason.PAUSED), False, (None, None, Reason.PAUSED, Return.NEVER)),
    "silence for a while": (
        facts(error=CloudUnavailable("c", "m")),
        Wait(Reason.CLOUD_UNAVAILABLE),
        True,
        (None, STALLED, Reason.CLOUD_UNAVAILABLE, Return.TRANSITION),
    ),
    "a key that is refused": (
        facts(error=Unauthorized("c", "m")),
        Wait(Reason.CLOUD_UNAVAILABLE),
        False,
        (None, STALLED, Reason.ACCOUNT_UNAUTHORIZED, Return.TRANSITION),
    ),
    "an account of something new": (
        facts(state=NO_ACCOUNT),
        Wait(Reason.WAITING_FOR_ACCOUNT),
        False,
        ("False", RECONCILING, Reason.WAITING_FOR_ACCOUNT, Return.SETTLED),
    ),
    "an account of what exists": (
        facts(obj=MADE, state=NO_ACCOUNT),
        Wait(Reason.WAITING_FOR_ACCOUNT),
        False,
        (None, STALLED, Reason.SECRET_MISSING, Return.SETTLED),
    ),
    "a refused account of something new": (
        facts(state=REFUSED),
        Stall(Reason.ACCOUNT_REFUSED),
        False,
        ("False", STALLED, Reason.ACCOUNT_UNAUTHORIZED, Return.SETTLED),
    ),
    "a refused account of what exists": (
        facts(obj=MADE, state=REFUSED),
        Stall(Reason.ACCOUNT_REFUSED),
        False,
        (None, STALLED, Reason.ACCOUNT_UNAUTHORIZED, Return.SETTLED),
    ),
    "a missing environment": (
        facts(note="no Secret"),
        Wait(Reason.ENV_MISSING),
        False,
        ("False", RECONCILING, Reason.ENV_MISSING, Return.TRANSITION),
    ),
    "a 404": (
        facts(obj=MADE, note="not found"),
        Wait(Reason.SEARCHING),
        False,
        ("False", RECONCILING, Reason.SEARCHING, Return.TRANSITION),
    ),
}


@pytest.mark.parametrize(("known", "action", "unreachable", "expected"), WAITS.values(), ids=WAITS)
def test_waiting_for(known: PodFacts, action: Action, unreachable: bool, expected: tuple[object, ...]) -> None:
    told = report(known, action, unreachable=unreachable)
    assert (told.ready, told.trouble, told.reason, told.back) == expected


def test_a_search_is_told_as_a_create_of_unknown_outcome_until_there_is_an_id() -> None:
    searching = report(facts(note="looking"), Wait(Reason.SEARCHING))
    assert [item.type for item in searching.extra] == [ConditionType.CREATE_OUTCOME_UNKNOWN]
    assert report(facts(obj=MADE), Wait(Reason.SEARCHING)).extra == ()


def test_a_deletion_that_waits_for_its_account_tells_the_way_out() -> None:
    known = facts(View(demand=Demand.DELETE), MADE, state=NO_ACCOUNT)
    told = report(known, Wait(Reason.WAITING_FOR_ACCOUNT))
    assert told.message.startswith("the Secret is missing; the deletion waits for it")
    assert "abandon" in told.message


STALLS: dict[str, tuple[Reason, str, str]] = {
    "an immutable field": (Reason.IMMUTABLE_FIELD_CHANGED, "image", "updateStrategy.type: Recreate"),
    "ended by another hand": (Reason.TERMINATED_EXTERNALLY, "", "the cloud says it is terminated; recovery.onTermin"),
    "not found any more": (Reason.TERMINATED_EXTERNALLY, "the cloud does not find it", "the cloud does not find it;"),
    "an adoption": (Reason.ADOPTION_REFUSED, "it differs", "it differs"),
    "another's resource": (Reason.IDENTITY_MISMATCH, "it is x", "it is x"),
}


@pytest.mark.parametrize(("reason", "note", "told"), STALLS.values(), ids=STALLS)
def test_a_stall_says_what_to_do(reason: Reason, note: str, told: str) -> None:
    stalled = report(facts(note=note), Stall(reason))
    assert (stalled.ready, stalled.trouble, stalled.reason, stalled.back) == ("False", STALLED, reason, Return.SETTLED)
    assert told in stalled.message


def test_an_account_that_is_subscribed_just_now_is_waited_for_on_the_way() -> None:
    told = report(facts(note="is being subscribed"), Wait(Reason.WAITING_FOR_ACCOUNT))
    assert (told.ready, told.trouble, told.reason) == ("False", RECONCILING, Reason.WAITING_FOR_ACCOUNT)
    assert (told.message, told.back) == ("is being subscribed", Return.TRANSITION)


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
