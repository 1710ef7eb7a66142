"""From a manifest to published answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.batch_side import (
    CREATE_BATCH,
    KIND,
    NAME,
    UPLOAD,
    batch,
    complete,
    content_of,
    files_in_cloud,
    published,
    put_prompts,
    record,
)
from tests.cluster.cloud_log import count
from tests.support.kstatus import kstatus
from tests.support.manifests import condition

if TYPE_CHECKING:
    from tests.support.workspace import Workspace


async def test_every_record_of_a_config_map_has_its_answer(workspace: Workspace) -> None:
    await put_prompts(workspace, [record(f"r{number}", f"say {number}") for number in range(20)])
    await workspace.apply(batch())
    done = await workspace.becomes(KIND, NAME, complete)

    answers, errors = await published(workspace)
    assert {each: content_of(answer) for each, answer in answers.items()} == {f"r{n}": f"say {n}" for n in range(20)}
    assert errors == {}
    status = done["status"]
    assert status["requestCounts"] == {"total": 20, "completed": 20, "failed": 0}
    assert status["progressPercent"] == 100
    assert status["usage"]["costNanoUsd"] > 0
    assert status["cost"].endswith(" USD")
    assert status["batchId"] == status["id"] == status["parts"][0]["batchId"]
    assert status["inputFileId"] == status["parts"][0]["inputFileId"]
    assert status["startTime"] <= status["completionTime"]
    assert condition(done, "Ready")["reason"] == "Completed"
    assert kstatus(done) == "Current"
    assert await count(workspace, UPLOAD) == 1
    assert await count(workspace, CREATE_BATCH) == 1
    assert await files_in_cloud(workspace) == []
