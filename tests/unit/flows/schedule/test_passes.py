"""Passes over schedules as time goes by: on time, never in a busy loop, and through an API server that fails."""

import json
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
import pytest_asyncio

from relay_operator.engine.queue import Priority
from tests.unit.engine.apiserver import Fault, Json
from tests.unit.flows.schedule.stage import KEY, NAMESPACE, Stage, running_stage

NOON = 1_772_366_400 // 60
"""Minutes since 1970 at the beginning."""


@pytest_asyncio.fixture
async def stage() -> AsyncIterator[Stage]:
    async with running_stage() as found:
        yield found


def name(minute: int) -> str:
    """The batch of so many minutes after noon."""
    return f"nightly-{NOON + minute}"


async def test_batches_are_started_at_their_times_by_the_queue_alone(stage: Stage) -> None:
    stage.apply()
    await stage.wait(59)
    assert stage.batches == []
    assert stage.status["nextScheduleTime"] == "2026-03-01T12:01:00Z"
    await stage.wait(1)
    assert stage.batches == [name(1)]
    await stage.wait(120)
    assert stage.batches == [name(minute) for minute in (1, 2, 3)]
    assert stage.status["lastScheduleTime"] == "2026-03-01T12:03:00Z"
    assert stage.creates == 3


async def test_waiting_costs_few_passes_and_no_write(stage: Stage) -> None:
    stage.apply(schedule="0 12 1 1 *")
    await stage.settle()
    passes, calls = len(stage.passes), len(stage.server.calls)
    await stage.wait(6 * 3600, step=60)
    assert len(stage.passes) - passes <= 37
    assert len(stage.server.calls) == calls


async def test_a_clock_that_is_set_is_noticed(stage: Stage) -> None:
    stage.apply(schedule="0 15 * * *")
    await stage.settle()
    wall = stage.clock.wall
    stage.wall = lambda: wall().replace(hour=15, minute=5)
    await stage.wait(601)
    assert stage.batches == [name(180)]


async def test_a_started_batch_is_looked_at_and_its_end_starts_what_was_forbidden(stage: Stage) -> None:
    stage.apply(concurrencyPolicy="Forbid")
    await stage.wait(200)
    assert stage.batches == [name(1)]
    assert stage.notes() == ["BatchAlreadyActive"] * 2
    stage.finish(name(1))
    await stage.settle()
    assert stage.batches == [name(1), name(3)]


async def test_the_batch_of_a_create_is_handed_to_its_own_reconciler(stage: Stage) -> None:
    stage.apply()
    await stage.settle()
    stage.clock.seconds += 60
    taken = await stage.queue.take()
    await stage.reconciler.reconcile(taken)
    following = await stage.queue.take()
    assert (following.key.name, following.priority) == (name(1), Priority.CHANGE)


async def test_an_answer_that_is_lost_makes_no_second_batch(stage: Stage) -> None:
    stage.apply()
    stage.server.faults.append(Fault(0, "POST", "inferencebatches", acted=True))
    await stage.wait(62)
    assert stage.batches == [name(1)]
    assert stage.status["lastScheduleTime"] == "2026-03-01T12:01:00Z"


@pytest.mark.parametrize("policy", ["Allow", "Forbid", "Replace"])
async def test_a_status_that_could_not_be_written_makes_no_second_batch(stage: Stage, policy: str) -> None:
    stage.apply(concurrencyPolicy=policy)
    await stage.settle()
    stage.server.faults.append(Fault(500, "PATCH", "inferencebatchschedules", times=100))
    stage.clock.seconds += 60
    await stage.settle()
    assert "lastScheduleTime" not in stage.status
    stage.server.faults.clear()
    stage.restart()
    await stage.settle()
    assert (stage.batches, stage.creates) == ([name(1)], 1)
    assert stage.status["lastScheduleTime"] == "2026-03-01T12:01:00Z"


async def test_a_batch_that_ended_during_a_suspension_is_not_made_again_after_it(stage: Stage) -> None:
    stage.apply(schedule="1 12 * * *")
    await stage.settle()
    stage.server.faults.append(Fault(500, "PATCH", "inferencebatchschedules", times=100))
    stage.clock.seconds += 60
    await stage.settle()
    stage.server.faults.clear()
    stage.change(suspend=True)
    stage.restart()
    await stage.settle()
    stage.server.remove("inferencebatches", NAMESPACE, name(1))  # its ttlSecondsAfterFinished is over
    await stage.wait(3600, step=60)
    stage.change(suspend=False)
    await stage.wait(3600, step=60)
    assert (stage.batches, stage.creates) == ([], 1)
    assert stage.status["lastScheduleTime"] == "2026-03-01T12:01:00Z"


async def test_a_refused_batch_is_tried_ever_more_slowly_and_at_once_when_the_spec_changes(stage: Stage) -> None:
    stage.apply(schedule="1 12 * * *")
    stage.server.faults.append(Fault(422, "POST", "inferencebatches", times=1000))
    await stage.wait(600)
    assert 5 <= stage.creates <= 12
    assert stage.notes() == ["TemplateRefused"]
    stage.server.faults.clear()
    stage.change(successfulBatchesHistoryLimit=5)
    await stage.settle()
    assert stage.batches == [name(1)]
    assert stage.notes() == ["Recovered"]


REFUSED = json.dumps({"kind": "Status", "reason": "Invalid", "message": "spec.model: Required value"})
FULL = json.dumps({"kind": "Status", "reason": "Forbidden", "message": "it is forbidden: exceeded quota: batches"})


async def test_a_running_batch_is_kept_while_the_one_to_replace_it_is_refused(stage: Stage) -> None:
    stage.apply(concurrencyPolicy="Replace")
    await stage.wait(60)
    stage.server.faults.append(Fault(422, "POST", "inferencebatches", times=1000, body=REFUSED))
    await stage.wait(120)
    assert stage.batches == [name(1)]
    assert stage.notes() == ["TemplateRefused"]
    stage.server.faults.clear()
    stage.change(successfulBatchesHistoryLimit=5)
    await stage.settle()
    assert stage.batches == [name(3)]
    assert sorted(stage.notes()) == ["BatchReplaced", "Recovered"]


async def test_a_running_batch_is_kept_while_somebody_elses_has_the_next_name(stage: Stage) -> None:
    stage.apply(concurrencyPolicy="Replace")
    await stage.wait(60)
    metadata: Json = {"name": name(2), "namespace": NAMESPACE}
    stage.server.put("inferencebatches", {"kind": "InferenceBatch", "metadata": metadata, "spec": {}})
    await stage.wait(60)
    assert stage.batches == [name(1), name(2)]
    assert stage.notes() == ["BatchNameTaken"]


async def test_a_running_batch_makes_room_in_a_full_quota(stage: Stage) -> None:
    stage.apply(concurrencyPolicy="Replace")
    await stage.wait(60)
    stage.server.faults.append(Fault(403, "POST", "inferencebatches", body=FULL))
    await stage.wait(60)
    assert stage.batches == [name(2)]


async def test_a_schedule_that_is_gone_is_forgotten_and_a_namesake_starts_afresh(stage: Stage) -> None:
    stage.apply(concurrencyPolicy="Forbid")
    await stage.wait(121)
    assert stage.notes() == ["BatchAlreadyActive"]
    stage.server.remove("inferencebatchschedules", NAMESPACE, KEY.name)
    await stage.settle()
    assert not stage.reconciler.memories._by_key
    stage.apply()
    await stage.wait(60)
    assert stage.batches == [name(1), name(3)]


async def test_a_schedule_that_cannot_be_read_is_left_alone(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    stage.apply(concurrencyPolicy="OfALaterRelease")
    await stage.wait(120)
    assert stage.server.writes == ["PATCH inferencebatchschedules/status"]
    assert "spec.concurrencyPolicy cannot be read" in caplog.text


async def test_one_deleted_while_its_status_is_written_is_no_mistake(stage: Stage) -> None:
    stage.apply()
    stage.server.before = lambda _: stage.server.objects.clear()
    await stage.settle()
    assert stage.passes[-1].outcome == "Keep"


async def test_a_clock_that_was_ahead_for_a_moment_does_not_stop_the_schedule(stage: Stage) -> None:
    stage.apply()
    await stage.wait(60)
    wall, later = stage.clock.wall, timedelta(days=30)
    stage.wall = lambda: wall() + later
    await stage.wait(60)
    stage.wall = wall
    ahead = name(30 * 24 * 60 + 2)
    assert stage.batches == [name(1), ahead]
    await stage.wait(180)
    assert stage.batches == [name(1), name(4), name(5), ahead]
    assert stage.status["lastScheduleTime"] == "2026-03-01T12:05:00Z"
    stage.wall = lambda: wall() + later - timedelta(minutes=3)
    await stage.wait(30)
    assert stage.creates == 4, "the time for which a batch exists has come"


async def test_a_finished_batch_that_cannot_be_deleted_is_told_once_and_holds_up_no_other(stage: Stage) -> None:
    stage.apply(successfulBatchesHistoryLimit=0)
    await stage.wait(120)
    for minute in (1, 2):
        stage.finish(name(minute))
    stage.server.faults.append(refusal := Fault(403, method="DELETE", plural="inferencebatches", times=1000))
    await stage.wait(120)
    assert stage.batches == [name(minute) for minute in (1, 2, 3, 4)]
    assert stage.notes() == ["HistoryStays"]
    stage.server.faults.remove(refusal)
    await stage.wait(60)
    assert stage.batches == [name(minute) for minute in (3, 4, 5)]


async def test_a_batch_that_is_to_be_replaced_and_cannot_be_deleted_keeps_the_next_from_starting(stage: Stage) -> None:
    stage.apply(concurrencyPolicy="Replace")
    await stage.wait(60)
    stage.server.faults.append(Fault(403, method="DELETE", plural="inferencebatches", times=1000))
    await stage.wait(60)
    assert stage.batches == [name(1)]
