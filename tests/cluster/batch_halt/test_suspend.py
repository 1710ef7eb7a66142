"""Suspended, nothing runs and nothing is sent; resumed, only what has no answer is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.batch_side import (
    CREATE_BATCH,
    KIND,
    NAME,
    UPLOAD,
    batch,
    complete,
    is_cancelled,
    published,
    put_prompts,
    record,
    runs_slowly,
)
from tests.cluster.cloud_log import count
from tests.support.kstatus import kstatus
from tests.support.manifests import condition, tells

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace

ALL = [record(f"r{number}", f"p{number}") for number in range(5)]


def _some_are_answered(item: Manifest | None) -> bool:
    counts = ((item or {}).get("status") or {}).get("requestCounts", {})
    return bool(counts.get("completed", 0) >= 2)


async def test_a_batch_that_is_suspended_from_the_start_sends_nothing(brisk_workspace: Workspace) -> None:
    await put_prompts(brisk_workspace, ALL)
    await brisk_workspace.apply(batch(suspend=True))
    held = await brisk_workspace.becomes(KIND, NAME, tells("Suspended"))
    assert condition(held, "Suspended")["status"] == "True"
    assert kstatus(held) == "Current"
    assert await count(brisk_workspace, UPLOAD, CREATE_BATCH) == 0

    await brisk_workspace.kube.patch(KIND, NAME, {"spec": {"suspend": False}})
    done = await brisk_workspace.becomes(KIND, NAME, complete)
    assert condition(done, "Suspended") == {}


@pytest.mark.parametrize("attempts", [3, 1])
async def test_suspending_keeps_the_answers_and_resuming_sends_the_rest_alone(
    brisk_private_workspace: Workspace, attempts: int
) -> None:
    workspace, control = brisk_private_workspace, brisk_private_workspace.cloud.control
    await runs_slowly(workspace, ALL, retryPolicy={"maxAttempts": attempts})
    await control.advance(230)
    await workspace.becomes(KIND, NAME, _some_are_answered)

    await workspace.kube.patch(KIND, NAME, {"spec": {"suspend": True}})
    await is_cancelled(workspace)
    await control.advance(200)
    held = await workspace.becomes(KIND, NAME, tells("Suspended"))
    kept = held["status"]["requestCounts"]["completed"]
    assert 2 <= kept < 5
    assert "data" not in await workspace.kube.get("ConfigMap", "answers")

    await control.settings(batchRecordSeconds=0.01)
    await control.clock(mode="real")
    await workspace.kube.patch(KIND, NAME, {"spec": {"suspend": False}})
    done = await workspace.becomes(KIND, NAME, complete)
    answers, errors = await published(workspace)
    assert sorted(answers) == [f"r{number}" for number in range(5)]
    assert errors == {}
    assert [part["records"] for part in done["status"]["parts"]] == [5, 5 - kept]
    assert done["status"]["requestCounts"] == {"total": 5, "completed": 5, "failed": 0}
