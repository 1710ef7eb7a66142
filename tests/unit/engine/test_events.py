"""Which changes of status people hear of as Events, and that telling never gets in the way."""

import asyncio
import re
from collections import Counter
from datetime import UTC, datetime

import pytest

from relay_operator.api.conditions import Condition, Reason
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.events import _WAITING, _WAITING_EACH, NOTE_LIMIT, Note, Recorder, noteworthy
from tests.support.eventually import eventually
from tests.unit.engine.apiserver import Fault, part
from tests.unit.flows.managed.world import NAMESPACE, World

KEY = ObjectKey("GpuPod", NAMESPACE, "train")


def conditions(ready: str, reason: Reason, trouble: str = "") -> list[Condition]:
    kinds = [("Ready", ready)] + ([(trouble, "True")] if trouble else [])
    return [
        Condition.model_validate(
            {
                "type": kind,
                "status": status,
                "reason": reason,
                "message": f"because of {reason}",
                "lastTransitionTime": datetime(2026, 3, 1, tzinfo=UTC),
            }
        )
        for kind, status in kinds
    ]


RUNNING = conditions("True", Reason.RUNNING)
DEPLOYING = conditions("False", Reason.DEPLOYING, "Reconciling")
FAILED = conditions("False", Reason.FAILED, "Stalled")
FULL = conditions("False", Reason.WAITING_FOR_CAPACITY, "Reconciling")
UNRECORDED = conditions("True", Reason.LEFTOVER_UNRECORDED, "LeftoverUnrecorded")
WAITING = conditions("False", Reason.WAITING_FOR_ACCOUNT, "Reconciling")
ENDING = conditions("False", Reason.DELETING, "Reconciling")

CHANGES: dict[str, tuple[list[Condition], list[Condition], bool, str]] = {
    "what goes as asked is not told": ([], DEPLOYING, False, ""),
    "becoming ready is not told": (DEPLOYING, RUNNING, False, ""),
    "a stall is told": (DEPLOYING, FAILED, False, "Failed"),
    "a stall that lasts is told once": (FAILED, FAILED, False, ""),
    "another trouble is told": (FULL, FAILED, False, "Failed"),
    "no room is told": (DEPLOYING, FULL, False, "WaitingForCapacity"),
    "the end of a trouble is told": (FAILED, RUNNING, False, "Recovered"),
    "a trouble that gives way to progress is not over": (FAILED, DEPLOYING, False, ""),
    "waiting for an account is not told": (DEPLOYING, WAITING, False, ""),
    "a deletion that is held up is told": (RUNNING, WAITING, True, "WaitingForAccount"),
    "a deletion under way is not told": (RUNNING, ENDING, True, ""),
    "what is left and cannot be written down is told": (RUNNING, UNRECORDED, False, "LeftoverUnrecorded"),
    "without conditions there is nothing to tell": ([], [], False, ""),
}


@pytest.mark.parametrize(("before", "after", "deleting", "told"), CHANGES.values(), ids=CHANGES)
def test_of_changes(before: list[Condition], after: list[Condition], deleting: bool, told: str) -> None:
    note = noteworthy(before, after, deleting=deleting)
    assert ("" if note is None else note.reason) == told
    if note is not None:
        assert note.type == ("Normal" if told == "Recovered" else "Warning")
        assert note.text.startswith("because of")


async def written(world: World, recorder: Recorder, count: int = 1) -> list[str]:
    """Lets the recorder write so many, then ends it; the names of the reasons written."""

    async def seen() -> int:
        return sum(call.plural == "events" for call in world.server.calls)

    running = asyncio.create_task(recorder.run())
    await eventually(seen, lambda number: number >= count, every=0.01)
    running.cancel()
    return [str(raw["reason"]) for (plural, _, _), raw in world.server.objects.items() if plural == "events"]


@pytest.mark.parametrize("namespace", [NAMESPACE, ""])
async def test_an_event_is_about_the_very_object(world: World, namespace: str) -> None:
    key = ObjectKey("GpuPod", namespace, "n" * 253)
    world.recorder.record(key, "u1", Note("Warning", "Failed", "x" * 5000))
    assert await written(world, world.recorder) == ["Failed"]
    (where, raw), *_ = [(key, raw) for key, raw in world.server.objects.items() if key[0] == "events"]
    regarding = part(raw, "regarding")
    assert (where[1], len(where[2]) <= 253) == (namespace or "default", True)
    assert (regarding["uid"], regarding["kind"], len(str(raw["note"]))) == ("u1", "GpuPod", NOTE_LIMIT)
    assert raw["eventTime"] == "2026-03-01T12:00:00.000000Z"


@pytest.mark.parametrize("end", ["-", ".", "-.-"])
async def test_the_name_of_an_event_is_one_wherever_the_name_of_its_object_is_cut(world: World, end: str) -> None:
    key = ObjectKey("GpuPod", NAMESPACE, f"{'n' * (200 - len(end))}{end}train")
    world.recorder.record(key, "u1", Note("Normal", "Recovered", ""))
    await written(world, world.recorder)
    (name,) = [where[2] for where in world.server.objects if where[0] == "events"]
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", name)


async def test_an_event_without_words_shows_its_reason(world: World) -> None:
    world.recorder.record(KEY, "u1", Note("Normal", "Recovered", ""))
    await written(world, world.recorder)
    assert [raw["note"] for key, raw in world.server.objects.items() if key[0] == "events"] == ["Recovered"]


async def test_an_event_that_cannot_be_written_does_not_hold_up_the_next(world: World) -> None:
    world.server.faults.append(Fault(403, plural="events"))
    for reason in ("Lost", "Failed"):
        world.recorder.record(KEY, "u1", Note("Warning", reason, "text"))
    assert await written(world, world.recorder, 2) == ["Failed"]


def test_too_many_events_are_dropped_and_nobody_waits(world: World) -> None:
    for number in range(_WAITING + 10):
        key = KEY._replace(namespace=f"team-{number % 8}")
        world.recorder.record(key, "u1", Note("Warning", "Failed", "text"))
    assert world.recorder._waiting.qsize() == _WAITING


async def test_events_of_one_namespace_leave_room_for_others_and_have_it_again_once_written(world: World) -> None:
    noisy, quiet = KEY, KEY._replace(namespace="team-b")
    world.server.put("namespaces", {"metadata": {"name": "team-b"}})

    async def reasons() -> Counter[str]:
        return Counter(str(raw["reason"]) for (plural, _, _), raw in world.server.objects.items() if plural == "events")

    for _ in range(_WAITING + 10):
        world.recorder.record(noisy, "u1", Note("Warning", "Failed", "text"))
    world.recorder.record(quiet, "u2", Note("Warning", "Lost", "text"))
    running = asyncio.create_task(world.recorder.run())
    found = await eventually(reasons, lambda found: "Lost" in found, within=10, every=0.01)
    assert found == {"Failed": _WAITING_EACH, "Lost": 1}
    world.recorder.record(noisy, "u1", Note("Normal", "Recovered", "text"))
    await eventually(reasons, lambda found: "Recovered" in found, within=10, every=0.01)
    running.cancel()
