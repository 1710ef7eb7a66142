"""How an object reads: what is asked, what is due, what differs. Tables over real pods."""

from datetime import timedelta

import pytest
from pydantic import JsonValue

from relay_operator.api.meta import CreateIntent, MalformedIntent
from relay_operator.engine.intent import fingerprints
from relay_operator.flows.managed import predicates
from relay_operator.flows.managed.actions import RESTART, START
from relay_operator.flows.managed.view import Demand, Difference, Gate, Seen, Undecided
from relay_operator.kinds.gpupod import GpuPod, GpuPods
from tests.unit.flows.managed.facts import INTENT, NOW, PODS, account, ago, pod, record

DELETED = ago(5)

DEMANDS: dict[str, tuple[GpuPod, Demand]] = {
    "it is to exist": (pod(), Demand.EXIST),
    "abandon counts only while deleting": (pod(annotations={"abandon": "true"}), Demand.EXIST),
    "it is to be deleted": (pod(deletionTimestamp=DELETED), Demand.DELETE),
    "it is to be stopped": (pod({"deletionPolicy": "Stop"}, deletionTimestamp=DELETED), Demand.DELETE_STOPPING),
    "it is to be left": (pod({"deletionPolicy": "Orphan"}, deletionTimestamp=DELETED), Demand.DELETE_ORPHANING),
    "it is to be let go": (
        pod({"deletionPolicy": "Stop"}, annotations={"abandon": "true"}, deletionTimestamp=DELETED),
        Demand.DELETE_ABANDONING,
    ),
    "abandon must say true": (pod(annotations={"abandon": "false"}, deletionTimestamp=DELETED), Demand.DELETE),
}


@pytest.mark.parametrize(("obj", "demand"), DEMANDS.values(), ids=DEMANDS)
def test_demand(obj: GpuPod, demand: Demand) -> None:
    assert predicates.demand(obj) is demand


@pytest.mark.parametrize(("value", "paused"), [("true", True), ("false", False), ("", False)])
def test_paused_must_say_true(value: str, paused: bool) -> None:
    assert pod(annotations={"paused": value}).metadata.paused is paused


BROKEN = MalformedIntent("broken")
INTENTS: dict[str, tuple[CreateIntent | MalformedIntent | None, str | None, bool]] = {
    "none": (None, None, False),
    "none, although an older one ended": (None, "t0", False),
    "one no status tells of": (INTENT, None, True),
    "one after another that ended": (INTENT, "t0", True),
    "one that ended": (INTENT, "t1", False),
    "one that cannot be read": (BROKEN, None, True),
    "one that cannot be read, after another that ended": (BROKEN, "t1", True),
    "one that cannot be read, and that a person answered": (BROKEN, "-", False),
}


@pytest.mark.parametrize(("intent", "token", "is_open"), INTENTS.values(), ids=INTENTS)
def test_an_intent_is_open(intent: CreateIntent | MalformedIntent | None, token: str | None, is_open: bool) -> None:
    assert predicates.intent_open(pod(status={"createToken": token}), intent) is is_open


def test_an_intent_that_cannot_be_read_is_not_open_beside_a_resource() -> None:
    assert not predicates.intent_open(pod(status={"createToken": "t1", "id": "pod-1"}), BROKEN)


@pytest.mark.parametrize(
    ("text", "known"), [(INTENT.to_annotation(), True), ("{", False), ("", False)], ids=["read", "broken", "none"]
)
def test_when_a_create_was_sent(text: str, known: bool) -> None:
    assert predicates.created_at(pod(annotations={"create-intent": text}), NOW) == (NOW if known else None)


def test_when_a_create_was_sent_is_unknown_if_the_clock_was_ahead_then() -> None:
    obj = pod(annotations={"create-intent": INTENT.to_annotation()})
    assert predicates.created_at(obj, NOW - timedelta(seconds=1)) is None


LATER: dict[str, JsonValue] = {"nextAttemptTime": ago(-10)}
GATES: dict[str, tuple[GpuPod, Gate]] = {
    "nothing was agreed": (pod(), Gate.OPEN),
    "the time has come": (pod(status={"nextAttemptTime": ago(0)}), Gate.OPEN),
    "the time has not come": (pod(status=LATER), Gate.LATER),
    "the clock was ahead when it was agreed on": (pod(status={"nextAttemptTime": ago(-77)}), Gate.OPEN),
    "the spec has changed": (pod(status=LATER, generation=2), Gate.OPEN),
    "a refresh was asked for": (pod(status=LATER, annotations={"reconcile-at": "a"}), Gate.OPEN),
    "a refresh was done": (pod(status={**LATER, "reconcileAt": "a"}, annotations={"reconcile-at": "a"}), Gate.LATER),
}


@pytest.mark.parametrize(("obj", "gate"), GATES.values(), ids=GATES)
def test_gate(obj: GpuPod, gate: Gate) -> None:
    assert predicates.gate(obj, NOW, timedelta(seconds=76)) is gate


UNDECIDED: dict[str, tuple[str, CreateIntent | MalformedIntent, bool, Undecided]] = {
    "nobody said anything": ("", INTENT, False, Undecided.HOLD),
    "the account sends again": ("", INTENT, True, Undecided.RESEND),
    "a person names the token": ("t1", INTENT, False, Undecided.GIVE_UP),
    "a person's word comes first": ("t1", INTENT, True, Undecided.GIVE_UP),
    "a person names another token": ("t0", INTENT, False, Undecided.HOLD),
    "what cannot be read is not sent again": ("", BROKEN, True, Undecided.HOLD),
    "any word ends what cannot be read": ("yes", BROKEN, False, Undecided.GIVE_UP),
}


@pytest.mark.parametrize(("word", "intent", "resend", "expected"), UNDECIDED.values(), ids=UNDECIDED)
async def test_undecided(word: str, intent: CreateIntent | MalformedIntent, resend: bool, expected: Undecided) -> None:
    obj = pod(annotations={"retry-create": word})
    assert predicates.undecided(GpuPods(), obj, intent, account(resend_unknown=resend)) is expected


def living(**status: JsonValue) -> GpuPod:
    return pod({"lifetime": {"maxRuntimeSeconds": 60, "ttlSecondsAfterStopped": 60}}, status)


POWER: dict[str, tuple[GpuPod, bool]] = {
    "asked to run": (pod(), True),
    "asked to stop": (pod({"powerState": "Stopped"}), False),
    "no limit": (pod({"lifetime": {}}, {"runningSince": ago(9999)}), True),
    "never ran": (living(), True),
    "within its time": (living(runningSince=ago(59)), True),
    "its time is up": (living(runningSince=ago(60)), False),
    "a restart begins anew": (
        pod({"lifetime": {"maxRuntimeSeconds": 60}}, {"runningSince": ago(60)}, {"restarted-at": "x"}),
        True,
    ),
    "in a window of its schedule": (
        pod({"lifetime": {"schedule": {"start": "0 9 * * *", "stop": "0 18 * * *"}}}),
        True,
    ),
    "outside of them": (pod({"lifetime": {"schedule": {"start": "0 18 * * *", "stop": "0 9 * * *"}}}), False),
    "a schedule that cannot be read": (
        pod({"lifetime": {"schedule": {"start": "0 0 31 2 *", "stop": "0 9 * * *"}}}),
        True,
    ),
    "an annotation that was taken away does not": (
        pod({"lifetime": {"maxRuntimeSeconds": 60}}, {"runningSince": ago(60), "restartedAt": "x"}),
        False,
    ),
    "a restart that was done does not": (
        pod(
            {"lifetime": {"maxRuntimeSeconds": 60}},
            {"runningSince": ago(60), "restartedAt": "x"},
            {"restarted-at": "x"},
        ),
        False,
    ),
}


@pytest.mark.parametrize(("obj", "running"), POWER.values(), ids=POWER)
def test_the_power_asked_for(obj: GpuPod, running: bool) -> None:
    assert predicates.running_wanted(obj, NOW) is running


@pytest.mark.parametrize(("full", "model"), [(0, "a"), (1, "b"), (2, "c"), (3, "a")])
def test_models_take_turns(full: int, model: str) -> None:
    assert predicates.model_id(("a", "b", "c"), full) == model
    assert predicates.model_id((), full) == ""


HASH = fingerprints(PODS.immutable(pod()))
ANEW: dict[str, JsonValue] = {"updateStrategy": {"type": "Recreate"}}
DIFFERENCES: dict[str, tuple[GpuPod, str, tuple[Difference, str]]] = {
    "none": (pod(status={"specHash": HASH}), "", (Difference.NONE, "")),
    "a field that is told": (
        pod({"volumeGb": 60}),
        "",
        (Difference.FORBIDDEN, "volumeGb: asked 60, has 50"),
    ),
    "a field that is not told": (
        pod({"httpPort": 81}, {"specHash": HASH}),
        "",
        (Difference.FORBIDDEN, "httpPort"),
    ),
    "a field is named once": (
        pod({"volumeGb": 60, "httpPort": 81}, {"specHash": HASH}),
        "",
        (Difference.FORBIDDEN, "volumeGb: asked 60, has 50; httpPort"),
    ),
    "where it may be recreated": (
        pod({**ANEW, "volumeGb": 60}),
        "",
        (Difference.REPLACEABLE, "volumeGb: asked 60, has 50"),
    ),
    "an environment that changed": (pod(status={"envDigest": "a"}), "b", (Difference.NONE, "")),
    "an environment that changed, recreated": (pod(ANEW, {"envDigest": "a"}), "b", (Difference.REPLACEABLE, "")),
    "an environment nobody read": (pod(ANEW, {"envDigest": "a"}), "", (Difference.NONE, "")),
    "an environment nobody recorded": (pod(ANEW), "b", (Difference.NONE, "")),
    "never, said aloud": (
        pod({"updateStrategy": {"type": "Never"}, "volumeGb": 60}),
        "",
        (Difference.FORBIDDEN, "volumeGb: asked 60, has 50"),
    ),
    "a step": (pod({"public": True}), "", (Difference.CHANGE, "")),
}


@pytest.mark.parametrize(("obj", "digest", "expected"), DIFFERENCES.values(), ids=DIFFERENCES)
def test_difference(obj: GpuPod, digest: str, expected: tuple[Difference, str]) -> None:
    found, _, note = predicates.difference(PODS, obj, record(), None, digest, NOW)
    assert (found, note) == expected


def test_what_was_recorded_is_in_the_intent_while_status_does_not_say_it() -> None:
    intent = INTENT.model_copy(update={"spec_hash": HASH})
    assert predicates.difference(PODS, pod({"httpPort": 81}), record(), intent, "", NOW)[0] is Difference.FORBIDDEN
    assert predicates.difference(PODS, pod({"httpPort": 81}), record(), None, "", NOW)[0] is Difference.NONE


def test_nothing_differs_from_what_is_not_there() -> None:
    assert predicates.difference(PODS, pod({"volumeGb": 60}), None, INTENT, "", NOW)[0] is Difference.NONE


ASKED = {"restarted-at": "x"}
CHANGES: dict[str, tuple[GpuPod, str, tuple[str, ...]]] = {
    "nothing": (pod(), "running", ()),
    "power before visibility": (pod({"public": True}), "stopped", (START, "visibility")),
    "a restart of what runs": (pod(annotations=ASKED), "running", (RESTART,)),
    "a start of what failed, for a restart": (pod(annotations=ASKED), "failed", (START,)),
    "a start does for a restart": (pod(annotations=ASKED), "stopped", (START,)),
    "no restart of what deploys": (pod(annotations=ASKED), "deploying", ()),
    "no restart of what is to be stopped": (pod({"powerState": "Stopped"}, annotations=ASKED), "stopped", ()),
    "no restart once the annotation is taken away": (pod(status={"restartedAt": "x"}), "running", ()),
    "no restart twice": (pod(status={"restartedAt": "x"}, annotations=ASKED), "running", ()),
}


@pytest.mark.parametrize(("obj", "state", "names"), CHANGES.values(), ids=CHANGES)
def test_changes(obj: GpuPod, state: str, names: tuple[str, ...]) -> None:
    assert tuple(change.name for change in predicates.changes_of(PODS, obj, record(state), NOW)) == names


KEPT: dict[str, JsonValue] = {"lifetime": {"ttlSecondsAfterStopped": 60}, "powerState": "Stopped"}
EXPIRED: dict[str, tuple[GpuPod, Seen, bool]] = {
    "no lifetime": (pod({"powerState": "Stopped"}, {"stoppedSince": ago(99)}), Seen.STOPPED, False),
    "no end": (
        pod({"powerState": "Stopped", "lifetime": {}}, {"stoppedSince": ago(99)}),
        Seen.STOPPED,
        False,
    ),
    "only just seen to be stopped": (pod(KEPT, {"state": "stopped", "stateSince": ago(99)}), Seen.STOPPED, False),
    "too early": (pod(KEPT, {"stoppedSince": ago(59)}), Seen.STOPPED, False),
    "time is up": (pod(KEPT, {"stoppedSince": ago(60)}), Seen.STOPPED, True),
    "running": (pod(KEPT, {"stoppedSince": ago(60)}), Seen.READY, False),
    "to run again": (
        pod({**KEPT, "powerState": "Running"}, {"stoppedSince": ago(60)}),
        Seen.STOPPED,
        False,
    ),
}


@pytest.mark.parametrize(("obj", "seen", "expired"), EXPIRED.values(), ids=EXPIRED)
def test_expired(obj: GpuPod, seen: Seen, expired: bool) -> None:
    assert predicates.expired(obj, seen, NOW) is expired


RECREATE: dict[str, JsonValue] = {"onInterrupted": "Recreate", "afterSeconds": 60}


def recovering(recovery: dict[str, JsonValue], **status: JsonValue) -> GpuPod:
    return pod({"recovery": recovery}, status)


DEADLINES: dict[str, tuple[GpuPod, list[int]]] = {
    "none": (pod(), []),
    "of a run": (living(state="running", runningSince=ago(10), stateSince=ago(10)), [50]),
    "of a rest": (living(stoppedSince=ago(20)), [40]),
    "of both, one gone by": (living(stoppedSince=ago(20), runningSince=ago(100)), [-40, 40]),
    "of an interruption": (recovering(RECREATE, state="interrupted", stateSince=ago(10)), [50]),
    "none of an interruption that is waited out": (pod(status={"state": "interrupted", "stateSince": ago(10)}), []),
    "none since nobody knows when": (recovering(RECREATE, state="interrupted"), []),
}


@pytest.mark.parametrize(("obj", "seconds"), DEADLINES.values(), ids=DEADLINES)
def test_deadlines(obj: GpuPod, seconds: list[int]) -> None:
    assert [(moment - NOW).total_seconds() for moment in predicates.deadlines(obj.spec, obj.status)] == seconds
