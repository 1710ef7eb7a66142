"""Records that failed are sent again, and those alone; how many failures are too many is the author's word."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio

from tests.cluster.batch_model import FailingModel
from tests.cluster.batch_side import (
    CREATE_BATCH,
    KIND,
    NAME,
    batch,
    complete,
    content_of,
    failed,
    files_in_cloud,
    published,
    put_prompts,
    record,
)
from tests.cluster.cloud_log import count
from tests.support.kstatus import kstatus
from tests.support.manifests import condition, tells

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace

ALL = [record(f"r{number}", f"p{number}") for number in range(6)]
AT_ONCE = {"backoffSeconds": 0}
A_DAY = {"backoffSeconds": 3600, "maxBackoffSeconds": 86_400}


@pytest_asyncio.fixture
async def model(brisk_workspace: Workspace) -> AsyncIterator[FailingModel]:
    async with FailingModel() as failing:
        yield await failing.serve(brisk_workspace)


async def test_only_failed_records_are_sent_again(brisk_workspace: Workspace, model: FailingModel) -> None:
    model.failing = {"p1": (1, 503), "p4": (2, 429)}
    await put_prompts(brisk_workspace, ALL)
    await brisk_workspace.apply(batch(model=model.name, retryPolicy=AT_ONCE))
    done = await brisk_workspace.becomes(KIND, NAME, complete)

    answers, errors = await published(brisk_workspace)
    assert {each: content_of(answer) for each, answer in answers.items()} == {f"r{n}": f"p{n}" for n in range(6)}
    assert errors == {}
    assert sorted(model.asked) == sorted(["p0", "p1", "p2", "p3", "p4", "p5", "p1", "p4", "p4"])
    assert done["status"]["requestCounts"] == {"total": 6, "completed": 6, "failed": 0}
    assert [part["records"] for part in done["status"]["parts"]] == [6, 2, 1]
    assert done["status"]["attempt"] == 3


async def test_a_record_that_fails_to_the_last_has_one_line_with_its_last_error(
    brisk_workspace: Workspace, model: FailingModel
) -> None:
    model.failing = {"p2": (9, 503), "p3": (9, 422)}
    await put_prompts(brisk_workspace, ALL)
    await brisk_workspace.apply(batch(model=model.name, retryPolicy={"maxAttempts": 2} | AT_ONCE))
    done = await brisk_workspace.becomes(KIND, NAME, complete)

    answers, errors = await published(brisk_workspace)
    assert sorted(answers) == ["r0", "r1", "r4", "r5"]
    assert sorted(errors) == ["r2", "r3"]
    assert model.asked.count("p2") == 2
    assert model.asked.count("p3") == 1, "the cloud says never to send a 422 unchanged"
    assert done["status"]["requestCounts"] == {"total": 6, "completed": 4, "failed": 2}
    message = condition(done, "Complete")["message"]
    assert "2 failed (upstream_unavailable: 1, invalid_request_error: 1)" in message
    assert "failures: ConfigMap answers, key errors.jsonl" in message
    reasons = [{"code": "upstream_unavailable", "count": 1}, {"code": "invalid_request_error", "count": 1}]
    assert done["status"]["failureReasons"] == reasons
    assert kstatus(done) == "Current"


def _held(item: Manifest | None) -> bool:
    return "retryTime" in ((item or {}).get("status") or {})


async def test_records_that_failed_wait_for_their_time_suspended_or_not_and_go_when_asked(
    brisk_workspace: Workspace, model: FailingModel
) -> None:
    model.failing = {"p1": (1, 503)}
    await put_prompts(brisk_workspace, ALL)
    await brisk_workspace.apply(batch(model=model.name, retryPolicy=A_DAY))
    held = await brisk_workspace.becomes(KIND, NAME, _held)
    at = held["status"]["retryTime"]
    told = condition(held, "Ready")
    assert (told["status"], told["reason"]) == ("True", "Retrying")
    assert at in told["message"]
    assert "(upstream_unavailable: 1)" in told["message"]
    assert held["status"]["progressPercent"] == 83

    await brisk_workspace.kube.patch(KIND, NAME, {"spec": {"suspend": True}})
    await brisk_workspace.becomes(KIND, NAME, tells("Suspended"))
    await brisk_workspace.kube.patch(KIND, NAME, {"spec": {"suspend": False}})
    resumed = await brisk_workspace.becomes(KIND, NAME, tells("Retrying"))
    assert resumed["status"]["retryTime"] == at
    assert await count(brisk_workspace, CREATE_BATCH) == 1

    await brisk_workspace.kube.patch(KIND, NAME, {"metadata": {"annotations": {"gpurelay.dev/reconcile-at": "now"}}})
    done = await brisk_workspace.becomes(KIND, NAME, complete)
    assert done["status"]["requestCounts"] == {"total": 6, "completed": 6, "failed": 0}
    assert "retryTime" not in done["status"]


async def test_deleted_before_that_time_the_answers_so_far_are_published(
    brisk_workspace: Workspace, model: FailingModel
) -> None:
    model.failing = {"p1": (1, 503)}
    await put_prompts(brisk_workspace, ALL)
    await brisk_workspace.apply(batch(model=model.name, retryPolicy=A_DAY))
    await brisk_workspace.becomes(KIND, NAME, _held)
    await brisk_workspace.kube.delete(KIND, NAME)
    await brisk_workspace.is_gone(KIND, NAME)
    answers, errors = await published(brisk_workspace)
    assert (len(answers), sorted(errors)) == (5, ["r1"])
    assert await files_in_cloud(brisk_workspace) == []


async def test_the_author_says_which_failures_are_worth_another_attempt(
    brisk_workspace: Workspace, model: FailingModel
) -> None:
    model.failing = {"p0": (1, 503), "p1": (1, 429)}
    await put_prompts(brisk_workspace, ALL)
    await brisk_workspace.apply(batch(model=model.name, retryPolicy={"maxAttempts": 5, "codes": ["429"]} | AT_ONCE))
    await brisk_workspace.becomes(KIND, NAME, complete)
    answers, errors = await published(brisk_workspace)
    assert sorted(errors) == ["r0"]
    assert len(answers) == 5
    assert await count(brisk_workspace, CREATE_BATCH) == 2


async def test_too_many_failures_fail_the_batch_and_the_output_is_there(
    brisk_workspace: Workspace, model: FailingModel
) -> None:
    model.failing = {"p0": (9, 422), "p1": (9, 422)}
    await put_prompts(brisk_workspace, ALL)
    await brisk_workspace.apply(batch(model=model.name, failurePolicy={"maxFailedRecords": 1}))
    done = await brisk_workspace.becomes(KIND, NAME, failed("TooManyFailures"))
    answers, errors = await published(brisk_workspace)
    assert (len(answers), len(errors)) == (4, 2)
    assert kstatus(done) == "Failed"
    assert done["status"]["ending"]["message"] == "2 of 6 records failed; failurePolicy allows 1"


async def test_failures_within_the_policy_are_complete(brisk_workspace: Workspace, model: FailingModel) -> None:
    model.failing = {"p0": (9, 422), "p1": (9, 422)}
    await put_prompts(brisk_workspace, ALL)
    policy = {"maxFailedRecords": 2, "maxFailedPercent": 34}
    await brisk_workspace.apply(batch(model=model.name, failurePolicy=policy))
    done = await brisk_workspace.becomes(KIND, NAME, complete)
    assert done["status"]["requestCounts"] == {"total": 6, "completed": 4, "failed": 2}
