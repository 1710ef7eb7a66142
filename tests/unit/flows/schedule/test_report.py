"""What a schedule's status says after a pass."""

from datetime import datetime

import pytest
from pydantic import JsonValue

from relay_operator.api.conditions import Reason
from relay_operator.api.inferencebatchschedule import InferenceBatchSchedule
from relay_operator.engine.status import status_patch
from relay_operator.flows.schedule.decide import Outcome
from relay_operator.flows.schedule.report import ScheduleFinding, Trouble, new_status
from tests.unit.flows.schedule.views import NOON, at, child

SPEC: JsonValue = {
    "model": "m",
    "endpoint": "/v1/messages",
    "input": {"fileId": "file-1"},
    "output": {"configMapRef": {"name": "answers"}},
}


SEEN: JsonValue = {
    "observedGeneration": 3,
    "conditions": [
        {"type": "Ready", "status": "True", "reason": "Scheduled", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    ],
}


def schedule(*, suspend: bool = False, status: JsonValue = None, **annotations: str) -> InferenceBatchSchedule:
    noted = {f"gpurelay.dev/{name.replace('_', '-')}": value for name, value in annotations.items()}
    return InferenceBatchSchedule.model_validate(
        {
            "metadata": {"name": "nightly", "namespace": "team-a", "generation": 3, "annotations": noted},
            "spec": {"schedule": "@hourly", "suspend": suspend, "batchTemplate": {"spec": SPEC}},
            "status": status or {},
        }
    )


def told(of: InferenceBatchSchedule, finding: ScheduleFinding) -> list[tuple[str, str, str]]:
    """Type, status and reason of each condition."""
    return [(one.type, one.status, one.reason) for one in new_status(of, finding).conditions]


@pytest.mark.parametrize(
    ("of", "trouble", "expected"),
    [
        (schedule(), None, [("Ready", "True", "Scheduled")]),
        (schedule(suspend=True), None, [("Ready", "True", "Suspended"), ("Suspended", "True", "Suspended")]),
        (schedule(paused="true"), None, [("Ready", "False", "Paused"), ("Paused", "True", "Paused")]),
        (schedule(plan_only="true"), None, [("Ready", "False", "Paused"), ("Paused", "True", "Paused")]),
        (schedule(paused="true", status=SEEN), None, [("Ready", "True", "Scheduled"), ("Paused", "True", "Paused")]),
        (
            schedule(suspend=True),
            Trouble(Reason.SCHEDULE_INVALID, "spec.schedule: minute: 60 is not from 0 to 59"),
            [("Ready", "False", "ScheduleInvalid"), ("Stalled", "True", "ScheduleInvalid")],
        ),
    ],
)
def test_conditions_say_whether_batches_are_started(
    of: InferenceBatchSchedule, trouble: Trouble | None, expected: list[tuple[str, str, str]]
) -> None:
    assert told(of, ScheduleFinding((), NOON, trouble=trouble)) == expected


def test_status_tells_what_runs_what_was_started_and_what_comes() -> None:
    batches = (child("b1"), child("b2", age=90), child("c1", Outcome.COMPLETE))
    after = new_status(schedule(reconcile_at="now"), ScheduleFinding(batches, NOON, at(11), at(13)))
    dumped = after.model_dump(mode="json", exclude_none=True, exclude={"conditions"})
    assert dumped == {
        "active": [{"name": "b2", "uid": "uid-of-b2"}, {"name": "b1", "uid": "uid-of-b1"}],
        "activeBatches": 2,
        "lastScheduleTime": "2026-11-21T11:00:00Z",
        "lastSuccessfulTime": "2026-11-21T12:00:00Z",
        "nextScheduleTime": "2026-11-21T13:00:00Z",
        "reconcileAt": "now",
        "observedGeneration": 3,
    }


def test_what_was_started_and_what_succeeded_stay_told_when_the_batches_are_gone() -> None:
    known: JsonValue = {"lastScheduleTime": "2026-11-21T11:00:00Z", "lastSuccessfulTime": "2026-11-21T11:30:00Z"}
    after = new_status(schedule(status=known), ScheduleFinding((), NOON))
    assert (after.last_schedule_time, after.last_successful_time) == (at(11), at(11, 30))


def test_only_a_hundred_batches_are_named_and_all_are_counted() -> None:
    after = new_status(schedule(), ScheduleFinding([child(f"b{number}") for number in range(130)], NOON))
    assert (len(after.active or ()), after.active_batches) == (100, 130)


@pytest.mark.parametrize(("now", "changed"), [(at(12, 5), False), (at(13), True)])
def test_a_pass_that_finds_nothing_new_writes_nothing(now: datetime, changed: bool) -> None:
    before = new_status(schedule(), ScheduleFinding((), NOON, None, at(13)))
    after = new_status(
        schedule().model_copy(update={"status": before}), ScheduleFinding((), now, at(13) if changed else None, at(13))
    )
    assert bool(status_patch(before, after)) is changed


def test_it_says_that_batches_with_one_output_will_fail() -> None:
    (ready,) = new_status(schedule(), ScheduleFinding((), NOON, one_output="answers")).conditions
    assert "all have the output answers, so that each after the first fails" in ready.message
    (ready,) = new_status(schedule(), ScheduleFinding((), NOON)).conditions
    assert "OutputExists" not in ready.message
