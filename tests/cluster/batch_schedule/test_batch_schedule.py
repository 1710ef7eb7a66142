"""InferenceBatchSchedule: what is started, beside what, what is kept, and what goes with it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from tests.cluster.batch_schedule.runs import BATCH, KIND, NAME, SPEC, TEMPLATE, Runs, active, batch_schedule, told, why
from tests.support.kstatus import kstatus
from tests.support.manifests import condition, ready, relay_object, stalled

if TYPE_CHECKING:
    from tests.support.kube import Manifest


async def test_a_missed_time_is_started_once_from_the_template(runs: Runs) -> None:
    await runs.create()
    await runs.run(0)
    schedule = await runs.looked_again()
    (batch,) = await runs.batches()
    metadata = batch["metadata"]
    assert (metadata["name"], batch["spec"]) == (runs.batch(0), SPEC)
    assert metadata["labels"] == {"team": "search", "gpurelay.dev/schedule": NAME}
    assert metadata["annotations"]["gpurelay.dev/scheduled-at"] == runs.at(0).strftime("%Y-%m-%dT%H:%M:%SZ")
    (owner,) = metadata["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == (KIND, NAME, schedule["metadata"]["uid"])
    assert owner["controller"] is True
    status = told(schedule)
    assert status["active"] == [{"name": metadata["name"], "uid": metadata["uid"]}]
    assert status["activeBatches"] == 1
    following = datetime.fromisoformat(status["nextScheduleTime"])
    assert following > datetime.now(UTC)
    assert (following.month, following.day) == (runs.at(0).month, runs.at(0).day)
    assert (why(schedule), kstatus(schedule)) == ("Scheduled", "Current")


async def test_the_operator_writes_status_alone(runs: Runs) -> None:
    await runs.create()
    await runs.run(0)
    written = (await runs.kube.get(KIND, NAME))["metadata"]["managedFields"]
    ours = [entry["fieldsV1"] for entry in written if entry["manager"] == "relay-operator"]
    assert [list(fields) for fields in ours] == [["f:status"]]


async def test_kubectl_tells_it_at_a_glance(runs: Runs) -> None:
    await runs.create(timeZone="Europe/Berlin", suspend=False)
    await runs.looked_again()
    header, line = (await runs.workspace.kubectl("get", "ibsched")).splitlines()
    columns = ["NAME", "SCHEDULE", "TIMEZONE", "SUSPEND", "ACTIVE", "LAST-SCHEDULE", "NEXT", "READY", "AGE"]
    assert header.split() == columns
    assert line.startswith(f"{NAME}   {runs.cron(0)}")
    assert "Europe/Berlin" in line


async def test_allowed_batches_run_beside_each_other(runs: Runs) -> None:
    await runs.create()
    for number in range(3):
        await runs.run(number)
    schedule = await runs.looked_again()
    assert active(schedule) == [runs.batch(number) for number in range(3)]


async def test_forbidden_the_next_waits_until_the_one_before_is_finished(runs: Runs) -> None:
    await runs.create(concurrencyPolicy="Forbid")
    await runs.run(0)
    await runs.come_due(1)
    (note,) = await runs.notes("BatchAlreadyActive")
    assert f"while {runs.batch(0)} is not finished" in note
    await runs.looked_again()
    assert await runs.names() == [runs.batch(0)]
    assert len(await runs.notes("BatchAlreadyActive")) == 1
    await runs.finish(0)
    schedule = await runs.started(1)
    assert active(schedule) == [runs.batch(1)]
    assert told(schedule)["lastSuccessfulTime"] == "2026-11-21T12:00:00Z"


async def test_replacing_deletes_the_one_that_runs(runs: Runs) -> None:
    await runs.create(concurrencyPolicy="Replace")
    await runs.run(0)
    await runs.run(1)
    await runs.left(1)
    await runs.becomes(lambda item: active(item) == [runs.batch(1)])
    (note,) = await runs.notes("BatchReplaced")
    assert runs.batch(0) in note


async def test_the_oldest_finished_ones_beyond_the_limits_are_deleted(runs: Runs) -> None:
    await runs.create(successfulBatchesHistoryLimit=2, failedBatchesHistoryLimit=0)
    for number in range(4):
        await runs.run(number)
    await runs.finish(3, "Failed")
    await runs.left(0, 1, 2)
    for number in (0, 1, 2):
        await runs.finish(number)
    await runs.left(1, 2)
    schedule = await runs.becomes(lambda item: told(item).get("activeBatches") == 0)
    assert active(schedule) == []


async def test_without_limits_three_that_succeeded_and_one_that_failed_are_kept(runs: Runs) -> None:
    await runs.create()
    for number in range(6):
        await runs.run(number)
    for number in (0, 1):
        await runs.finish(number, "Failed")
    for number in (2, 3, 4, 5):
        await runs.finish(number)
    await runs.left(1, 3, 4, 5)


async def test_suspended_it_starts_nothing_and_then_the_latest_that_was_missed(runs: Runs) -> None:
    await runs.create(suspend=True)
    await runs.forget()
    schedule = await runs.looked_again()
    assert (why(schedule), ready(schedule)) == ("Suspended", True)
    assert "nextScheduleTime" not in told(schedule)
    assert await runs.names() == []
    await runs.come_due(3, suspend=False)
    await runs.started(3)
    assert await runs.names() == [runs.batch(3)]


async def test_paused_it_changes_nothing(runs: Runs) -> None:
    await runs.create(successfulBatchesHistoryLimit=0)
    await runs.run(0)
    await runs.kube.annotate(KIND, NAME, {"gpurelay.dev/paused": "true"})
    # Schedules and batches are watched apart: the pause has to be known before the batch is finished.
    await runs.becomes(lambda item: condition(item, "Paused").get("status") == "True")
    await runs.finish(0)
    await runs.come_due(1)
    await runs.looked_again()
    assert await runs.names() == [runs.batch(0)]
    await runs.kube.annotate(KIND, NAME, {"gpurelay.dev/paused": None})
    await runs.left(1)


async def test_a_time_that_is_too_late_is_left_out_and_told(runs: Runs) -> None:
    day = 86_400
    await runs.create(startingDeadlineSeconds=day)
    await runs.forget()
    (note,) = await runs.notes("MissedSchedule")
    assert note.endswith("it was missed by more than 86400 s")
    assert await runs.names() == []
    await runs.kube.patch(KIND, NAME, {"spec": {"startingDeadlineSeconds": 30 * day}})
    await runs.started(0)


async def test_of_very_many_missed_times_the_latest_alone_is_started_and_it_is_told(runs: Runs) -> None:
    await runs.workspace.apply(batch_schedule(schedule=runs.cron(0, minute="*", hour="*")))
    await runs.becomes(ready)
    await runs.forget()
    (note,) = await runs.notes("TooManyMissedTimes")
    assert "more than 100 times were missed" in note
    schedule = await runs.becomes(active)
    last = datetime.fromisoformat(told(schedule)["lastScheduleTime"])
    assert (last.date(), last.hour, last.minute) == (runs.at(0).date(), 23, 59)
    assert len(await runs.names()) == 1


@pytest.mark.parametrize(
    ("spec", "reason", "words"),
    [
        ({"schedule": "61 * * * *"}, "ScheduleInvalid", "spec.schedule: minute: 61 is not from 0 to 59"),
        ({"schedule": "0 0 31 2 *"}, "ScheduleInvalid", "no year has a date like '0 0 31 2 *'"),
        ({"timeZone": "Mars/Olympus"}, "TimeZoneUnknown", "spec.timeZone: there is no time zone 'Mars/Olympus'"),
    ],
)
async def test_what_cannot_be_read_is_told_and_better_once_it_is_corrected(
    runs: Runs, spec: Manifest, reason: str, words: str
) -> None:
    await runs.workspace.apply(batch_schedule(**({"schedule": runs.cron(0)} | spec)))
    schedule = await runs.becomes(lambda item: stalled(item) == reason)
    assert words in condition(schedule, "Stalled")["message"]
    assert kstatus(schedule) == "Failed"
    assert words in (await runs.notes(reason))[0]
    await runs.kube.patch(KIND, NAME, {"spec": {"schedule": runs.cron(0), "timeZone": "Europe/Berlin"}})
    await runs.becomes(ready)


async def test_another_ones_batch_of_that_name_is_neither_taken_nor_touched(runs: Runs) -> None:
    await runs.create()
    await runs.kube.create(relay_object(BATCH, runs.batch(0), **SPEC) | {"metadata": _untouched(runs.batch(0))})
    await runs.forget()
    (note,) = await runs.notes("BatchNameTaken")
    assert f"an InferenceBatch {runs.batch(0)} exists that is not this schedule's" in note
    schedule = await runs.looked_again()
    assert (active(schedule), told(schedule)["lastScheduleTime"]) == ([], "2020-01-01T00:00:00Z")
    assert "ownerReferences" not in (await runs.batches())[0]["metadata"]
    await runs.run(1)


async def test_a_template_that_the_api_server_refuses_is_told_until_it_is_corrected(runs: Runs) -> None:
    bad = {"metadata": {"labels": {"a..b/label": "x"}, "annotations": TEMPLATE["metadata"]["annotations"]}}
    await runs.create(batchTemplate=bad | {"spec": SPEC})
    await runs.forget()
    schedule = await runs.becomes(lambda item: stalled(item) == "TemplateRefused")
    assert "a..b/label" in condition(schedule, "Stalled")["message"]
    await runs.kube.patch(
        KIND, NAME, {"spec": {"batchTemplate": {"metadata": {"labels": {"a..b/label": None, "team": "x"}}}}}
    )
    await runs.started(0)
    await runs.becomes(ready)


def _untouched(name: str) -> Manifest:
    return {"name": name, "annotations": TEMPLATE["metadata"]["annotations"]}
