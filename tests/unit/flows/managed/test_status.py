"""The status to write: what is recorded, what is mirrored, what is dropped, and the smallest patch."""

from datetime import timedelta

import pytest
from pydantic import JsonValue

from relay_client import CloudError, CloudUnavailable, RateLimited
from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.api.references import AccountRef
from relay_operator.engine.actions import Keep
from relay_operator.engine.report import Report
from relay_operator.engine.status import merge_patch, status_patch
from relay_operator.flows.managed import actions
from relay_operator.flows.managed.actions import RESTART, START, STOP, Action
from relay_operator.flows.managed.facts import Facts
from relay_operator.flows.managed.funding import Funded
from relay_operator.flows.managed.result import Accepted, Rejected, Result, Sent
from relay_operator.flows.managed.status import new_status
from relay_operator.flows.managed.view import Difference, Seen, View
from relay_operator.kinds.gpupod import GpuPod, GpuPodStatus
from relay_wire.vms import VmRecord
from tests.unit.flows.managed.facts import INTENT, NOW, PODS, PodFacts, account, ago, pod, record
from tests.unit.flows.managed.outcomes import KEEP, NOTHING, PACING, READY, REFUSED, REFUSED_START, written


def test_an_id_is_recorded_with_all_that_is_needed_to_find_it_again() -> None:
    status = written(pod(), actions.Create(), Accepted(record(), INTENT), env_digest="abc")
    assert (status.id, status.cloud_name) == ("pod-1", "team-a-train-1")
    assert (status.create_token, status.attempt, status.env_digest) == ("t1", 2, "abc")
    assert status.account == AccountRef.model_validate({"kind": "CloudAccount", "name": "default"})


def test_a_cloud_that_tells_no_name_is_believed_to_use_ours() -> None:
    status = written(pod(), actions.Create(), Accepted(record(name=""), INTENT))
    assert status.cloud_name == INTENT.name


CLOSED: dict[str, tuple[GpuPod, Action, Result[VmRecord], tuple[str | None, int | None]]] = {
    "a refused create": (pod(), actions.Create(), Rejected(RateLimited("c", "m"), INTENT), ("t1", 2)),
    "a refused change": (pod(), actions.Update(STOP), Rejected(RateLimited("c", "m")), (None, None)),
    "a create that came to nothing": (pod(), actions.CloseIntent(), NOTHING, ("t1", 2)),
    "one of several": (pod(status={"attempt": 5}), actions.CloseIntent(), NOTHING, ("t1", 5)),
    "nothing": (pod(), KEEP, NOTHING, (None, None)),
}


@pytest.mark.parametrize(("obj", "action", "result", "expected"), CLOSED.values(), ids=CLOSED)
def test_an_intent_is_closed_by(
    obj: GpuPod, action: Action, result: Result[VmRecord], expected: tuple[str | None, int | None]
) -> None:
    status = written(obj, action, result)
    assert (status.create_token, status.attempt) == expected


def test_an_intent_that_cannot_be_read_is_closed_all_the_same() -> None:
    obj = pod()
    facts: PodFacts = Facts(PODS, obj.key, obj, NOW, account(), View(), None)
    status = new_status(facts, actions.CloseIntent(), NOTHING, READY, PACING)
    assert (status.create_token, status.attempt) == ("-", 1)


@pytest.mark.parametrize(
    ("action", "replacing"),
    [(actions.Replace(), True), (KEEP, None), (actions.Update(STOP), None), (actions.Delete(), True)],
    ids=["told", "no longer wanted", "changed instead", "under way"],
)
def test_a_replacement_is(action: Action, replacing: bool | None) -> None:
    before = None if action == actions.Replace() else True
    assert written(pod(status={"replacing": before}), action).replacing is replacing


def test_what_is_said_of_a_resource_goes_with_it() -> None:
    told: dict[str, JsonValue] = {
        "id": "pod-1",
        "account": {"name": "default"},
        "cloudName": "n",
        "state": "terminated",
        "specHash": "a=b",
        "replacing": True,
        "createToken": "t1",
        "attempt": 2,
    }
    status = written(pod(status=told), actions.Forget())
    assert (status.id, status.account, status.cloud_name, status.state, status.spec_hash) == (None,) * 5
    assert (status.replacing, status.state_since) == (None, None)
    assert (status.create_token, status.attempt) == ("t1", 2)


@pytest.mark.parametrize(
    ("action", "result", "echoed"),
    [
        (actions.Update(RESTART), Sent(), "x"),
        (actions.Update(START), Sent(), "x"),
        (actions.Create(), Accepted(record(), INTENT), "x"),
        (actions.Update(STOP), Sent(), None),
        (actions.Update(RESTART), Rejected(RateLimited("c", "m")), None),
    ],
    ids=["restart", "start", "create", "stop", "refused"],
)
def test_a_restart_is_echoed_by(action: Action, result: Result[VmRecord], echoed: str | None) -> None:
    assert written(pod(annotations={"restarted-at": "x"}), action, result).restarted_at == echoed


@pytest.mark.parametrize(("error", "echoed"), [(None, "x"), (CloudUnavailable("c", "m"), None)], ids=["seen", "blind"])
def test_a_refresh_is_echoed_once_the_cloud_was_seen(error: CloudError | None, echoed: str | None) -> None:
    assert written(pod(annotations={"reconcile-at": "x"}), error=error).reconcile_at == echoed


@pytest.mark.parametrize(
    ("action", "result", "state", "stands"),
    [
        (KEEP, NOTHING, "stopped", True),
        (actions.Update(START), REFUSED_START, "stopped", True),
        (actions.Update(STOP), Sent(), "stopped", True),
        (actions.Update(START), Sent(), "stopped", False),
        (KEEP, NOTHING, "deploying", False),
        (actions.Forget(), NOTHING, "stopped", False),
    ],
)
def test_what_the_cloud_is_about_to_delete_is_told_until_it_is_started_or_gone(
    action: Action, result: Result[VmRecord], state: str, *, stands: bool
) -> None:
    was = pod(status={"id": "pod-1", "state": "stopped", "deletionDeadline": ago(-60)})
    waiting = Report("False", ConditionType.RECONCILING, Reason.WAITING_FOR_BUDGET, "no room")
    status = written(was, action, result, waiting, observed=record(state))
    assert status.deletion_deadline == (NOW + timedelta(minutes=1) if stands else None)


@pytest.mark.parametrize(("funded", "price"), [(Funded(), 5), (Funded(price=9), 9)])
def test_a_price_that_cannot_be_read_stays_as_it_was(funded: Funded, price: int | None) -> None:
    was = pod(status={"id": "pod-1", "pricePerHourCents": 5})
    facts: PodFacts = Facts(PODS, was.key, was, NOW, account(), View(), INTENT, funded=funded)
    assert new_status(facts, KEEP, NOTHING, READY, PACING).price_per_hour_cents == price


@pytest.mark.parametrize(
    ("state", "paying"),
    [("running", 249), ("stopped", None), ("interrupted", None), ("deploying", None), ("failed", None)],
)
def test_what_is_paid_now_is_the_price_only_while_it_is_billed(state: str, paying: int | None) -> None:
    was = pod(status={"id": "pod-1", "state": "running", "pricePerHourCents": 249, "payingPerHourCents": 249})
    status = written(was, observed=record(state, pricePerHourCents=249))
    assert (status.price_per_hour_cents, status.paying_per_hour_cents) == (249, paying)


def test_nothing_is_paid_for_what_is_gone() -> None:
    was = pod(status={"id": "pod-1", "state": "running", "pricePerHourCents": 249, "payingPerHourCents": 249})
    assert written(was, view=View(seen=Seen.GONE)).paying_per_hour_cents is None
    assert written(was, actions.Forget()).paying_per_hour_cents is None


def test_what_the_cloud_does_not_find_any_more_reads_as_terminated() -> None:
    status = written(pod(status={"id": "pod-1", "state": "running"}), view=View(seen=Seen.GONE))
    assert (status.id, status.state, status.state_since) == ("pod-1", "terminated", NOW)


BEFORE: JsonValue = [
    {"type": "Ready", "status": "True", "reason": "Running", "message": "runs", "lastTransitionTime": ago(60)}
]
BLIND = Report(None, ConditionType.STALLED, Reason.CLOUD_UNAVAILABLE, "silence")
CONDITIONS: dict[str, tuple[GpuPod, Report, list[tuple[str, str, str]]]] = {
    "ready": (pod(), READY, [("Ready", "True", "Running")]),
    "on its way": (pod(), REFUSED, [("Ready", "False", "RateLimited"), ("Reconciling", "True", "RateLimited")]),
    "as last known": (
        pod(status={"conditions": BEFORE}),
        BLIND,
        [("Ready", "True", "Running"), ("Stalled", "True", "CloudUnavailable")],
    ),
    "never known": (pod(), BLIND, [("Ready", "False", "CloudUnavailable"), ("Stalled", "True", "CloudUnavailable")]),
}


@pytest.mark.parametrize(("obj", "report", "expected"), CONDITIONS.values(), ids=CONDITIONS)
def test_conditions_are(obj: GpuPod, report: Report, expected: list[tuple[str, str, str]]) -> None:
    status = written(obj, report=report)
    assert [(item.type, item.status, item.reason) for item in status.conditions] == expected
    assert status.observed_generation == 1


@pytest.mark.parametrize(
    ("recorded", "read", "difference", "told"),
    [
        ("a", "b", Difference.NONE, True),
        ("a", "b", Difference.REPLACEABLE, False),
        ("a", "a", Difference.NONE, False),
        ("a", "", Difference.NONE, False),
        (None, "b", Difference.NONE, False),
    ],
    ids=["changed", "changed, and applied", "same", "not read", "not recorded"],
)
def test_an_environment_that_changed_is_told(
    recorded: str | None, read: str, difference: Difference, told: bool
) -> None:
    status = written(pod(status={"envDigest": recorded}), env_digest=read, view=View(difference=difference))
    assert any(item.type == ConditionType.ENV_OUTDATED for item in status.conditions) is told


def test_what_the_api_server_would_refuse_is_cut_or_left_out_so_that_the_id_is_written() -> None:
    odd = record("s" * 80, name="n" * 80, endpointUrl="e" * 3000, pricePerHourCents=-1, statusReason="r" * 3000)
    status = written(pod(), actions.Create(), Accepted(odd, INTENT))
    assert GpuPodStatus.model_validate(status.model_dump()) == status
    assert (status.id, status.create_token, status.volume_gb) == ("pod-1", "t1", 50)
    assert (len(status.endpoint_url or ""), len(status.status_reason or "")) == (2048, 1024)
    assert (status.price_per_hour_cents, status.cloud_name) == (None, None)


def test_an_id_is_written_by_create_and_adopt_and_by_no_look() -> None:
    obj = pod(status={"id": "pod-1", "cloudName": "team-a-train-1"})
    assert written(obj, Keep(), observed=record(id="pod-2")).id == "pod-1"
    for action in (actions.Create(), actions.Adopt()):
        assert written(pod(), action, Accepted(record(id="pod-2"), INTENT)).id == "pod-2"


def test_the_patch_says_only_what_changed_and_drops_what_is_gone() -> None:
    obj = pod(status={"id": "pod-1", "state": "running", "endpointUrl": "https://x", "account": {"name": "default"}})
    assert status_patch(obj.status, obj.status) == {}
    status = obj.status.model_copy(update={"state": "stopped", "endpoint_url": "", "failures": 2})
    assert status_patch(obj.status, status) == {"state": "stopped", "endpointUrl": None, "failures": 2}


PATCHES: dict[str, tuple[dict[str, JsonValue], dict[str, JsonValue], dict[str, JsonValue]]] = {
    "the same": ({"a": 1, "b": {"c": 2}}, {"a": 1, "b": {"c": 2}}, {}),
    "added and changed and dropped": ({"a": 1, "b": 2}, {"b": 3, "c": 4}, {"a": None, "b": 3, "c": 4}),
    "inside": ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "d": 3}}, {"a": {"c": None, "d": 3}}),
    "lists whole": ({"a": [1, 2]}, {"a": [1]}, {"a": [1]}),
    "one kind for another": ({"a": {"b": 1}}, {"a": 1}, {"a": 1}),
    "null where there was nothing": ({}, {"a": None}, {"a": None}),
}


@pytest.mark.parametrize(("before", "after", "patch"), PATCHES.values(), ids=PATCHES)
def test_a_merge_patch_of(
    before: dict[str, JsonValue], after: dict[str, JsonValue], patch: dict[str, JsonValue]
) -> None:
    assert merge_patch(before, after) == patch
