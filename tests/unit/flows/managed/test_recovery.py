"""What is restarted or recreated, and when once more: tables over real pods."""

from datetime import timedelta

import pytest
from pydantic import JsonValue

from relay_operator.flows.managed import recovery
from relay_operator.flows.managed.view import Difference, Recovery, Seen
from relay_operator.kinds.gpupod import GpuPod
from tests.unit.flows.managed.facts import NOW, ago, pod


def recovering(asked: dict[str, JsonValue], **status: JsonValue) -> GpuPod:
    return pod({"recovery": asked}, status)


def stopping(asked: dict[str, JsonValue], **status: JsonValue) -> GpuPod:
    return pod({"recovery": asked, "powerState": "Stopped"}, status)


RECREATE: dict[str, JsonValue] = {"onInterrupted": "Recreate", "afterSeconds": 60}
RESTART: dict[str, JsonValue] = {"onFailed": "Restart"}
RECOVERIES: dict[str, tuple[GpuPod, Seen, Recovery]] = {
    "gone stalls": (pod(), Seen.GONE, Recovery.NONE),
    "gone is recreated": (recovering({"onTerminated": "Recreate"}), Seen.GONE, Recovery.RECREATE),
    "nothing else is": (recovering({"onTerminated": "Recreate"}), Seen.FAILED, Recovery.NONE),
    "interrupted waits": (pod(), Seen.INTERRUPTED, Recovery.NONE),
    "interrupted just now": (
        recovering(RECREATE, state="running", stateSince=ago(900)),
        Seen.INTERRUPTED,
        Recovery.NONE,
    ),
    "interrupted a while": (
        recovering(RECREATE, state="interrupted", stateSince=ago(59)),
        Seen.INTERRUPTED,
        Recovery.NONE,
    ),
    "interrupted for long": (
        recovering(RECREATE, state="interrupted", stateSince=ago(60)),
        Seen.INTERRUPTED,
        Recovery.RECREATE,
    ),
    "interrupted since nobody knows when": (recovering(RECREATE, state="interrupted"), Seen.INTERRUPTED, Recovery.NONE),
    "failed stalls": (pod(), Seen.FAILED, Recovery.NONE),
    "failed is recreated": (recovering({"onFailed": "Recreate"}), Seen.FAILED, Recovery.RECREATE),
    "failed is restarted": (recovering(RESTART, state="running"), Seen.FAILED, Recovery.RESTART),
    "failed, not restarted": (stopping(RESTART, state="failed"), Seen.FAILED, Recovery.NONE),
    "failed, not recreated": (stopping({"onFailed": "Recreate"}, state="failed"), Seen.FAILED, Recovery.NONE),
    "interrupted, not recreated": (
        stopping(RECREATE, state="interrupted", stateSince=ago(60)),
        Seen.INTERRUPTED,
        Recovery.NONE,
    ),
}


@pytest.mark.parametrize(("obj", "seen", "expected"), RECOVERIES.values(), ids=RECOVERIES)
def test_recovery(obj: GpuPod, seen: Seen, expected: Recovery) -> None:
    assert recovery.recovery(obj, seen, NOW) is expected


@pytest.mark.parametrize(("made", "seconds"), [(None, 0), (0, 0), (1, 10), (2, 20), (5, 160), (6, 300), (1000, 300)])
def test_recoveries_are_spread_from_the_failure_on(made: int | None, seconds: int) -> None:
    obj = pod(status={"state": "failed", "stateSince": ago(7), "recoveries": made})
    assert recovery.due(obj, Seen.FAILED, NOW) == NOW + timedelta(seconds=seconds - 7)


DUE: dict[str, tuple[GpuPod, Seen, int]] = {
    "seen just now": (pod(status={"state": "running", "stateSince": ago(99), "recoveries": 1}), Seen.FAILED, 10),
    "interrupted": (pod(status={"state": "interrupted", "stateSince": ago(5), "recoveries": 1}), Seen.INTERRUPTED, 5),
    "gone": (pod(status={"state": "terminated", "stateSince": ago(5), "recoveries": 1}), Seen.GONE, 5),
    "not as asked": (pod(status={"state": "running", "stateSince": ago(5), "recoveries": 1}), Seen.READY, 5),
    "after a run that lasted": (
        pod(status={"state": "failed", "stateSince": ago(5), "runningSince": ago(605), "recoveries": 9}),
        Seen.FAILED,
        -5,
    ),
    "after it loaded for long": (
        pod(status={"state": "provisioning", "stateSince": ago(605), "runningSince": ago(605), "recoveries": 1}),
        Seen.FAILED,
        10,
    ),
    "after a short run of what loaded for long": (
        pod(status={"state": "degraded", "stateSince": ago(60), "runningSince": ago(720), "recoveries": 5}),
        Seen.FAILED,
        160,
    ),
    "after a short run, seen late": (
        pod(status={"state": "failed", "stateSince": ago(100), "runningSince": ago(605), "recoveries": 9}),
        Seen.FAILED,
        200,
    ),
}


@pytest.mark.parametrize(("obj", "seen", "seconds"), DUE.values(), ids=DUE)
def test_due(obj: GpuPod, seen: Seen, seconds: int) -> None:
    assert recovery.due(obj, seen, NOW) == NOW + timedelta(seconds=seconds)


LATELY: dict[str, JsonValue] = {"state": "failed", "stateSince": ago(5), "recoveries": 1}
HELD_BACK: dict[str, tuple[GpuPod, Recovery, Difference, bool]] = {
    "a recovery": (pod(status=LATELY), Recovery.RECREATE, Difference.NONE, True),
    "a replacement": (pod(status=LATELY), Recovery.NONE, Difference.REPLACEABLE, True),
    "not a first one": (pod(status=LATELY | {"recoveries": None}), Recovery.RECREATE, Difference.NONE, False),
    "not one that is due": (pod(status=LATELY | {"stateSince": ago(10)}), Recovery.RESTART, Difference.NONE, False),
    "not what nobody asks for": (pod(status=LATELY), Recovery.NONE, Difference.FORBIDDEN, False),
    "not after a change": (pod(status=LATELY, generation=2), Recovery.RECREATE, Difference.NONE, False),
    "not where a refresh is asked for": (
        pod(status=LATELY, annotations={"reconcile-at": "a"}),
        Recovery.RECREATE,
        Difference.NONE,
        False,
    ),
}


@pytest.mark.parametrize(("obj", "asked", "difference", "expected"), HELD_BACK.values(), ids=HELD_BACK)
def test_held_back(obj: GpuPod, asked: Recovery, difference: Difference, expected: bool) -> None:
    assert recovery.held_back(obj, Seen.FAILED, asked, difference, NOW) is expected


COUNTED: dict[str, tuple[GpuPod, Recovery, int]] = {
    "a first": (pod(status=LATELY | {"recoveries": None}), Recovery.RECREATE, 1),
    "another": (pod(status=LATELY), Recovery.RESTART, 2),
    "a first after a run that lasted": (pod(status=LATELY | {"runningSince": ago(700)}), Recovery.RESTART, 1),
    "a replacement that nobody's change asked for": (pod(status=LATELY), Recovery.NONE, 2),
    "not a replacement after a change": (pod(status=LATELY, generation=2), Recovery.NONE, 1),
}


@pytest.mark.parametrize(("obj", "asked", "expected"), COUNTED.values(), ids=COUNTED)
def test_counted(obj: GpuPod, asked: Recovery, expected: int) -> None:
    assert recovery.counted(obj, Seen.FAILED, asked, NOW) == expected
