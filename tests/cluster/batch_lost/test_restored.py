"""A backup restores a status that is older than the batch in the cloud: nothing is paid for again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.batch_side import (
    CREATE_BATCH,
    KIND,
    NAME,
    Json,
    batch,
    batches_in_cloud,
    complete,
    published,
    put_prompts,
    record,
)
from tests.cluster.cloud_log import count
from tests.cluster.conftest import BRISK
from tests.support.manifests import tells

if TYPE_CHECKING:
    from tests.conftest import StartOperator
    from tests.support.workspace import Workspace

_UPLOADED = ("createToken", "cloudName", "identity", "account", "startTime", "round", "attempt", "input")


def _before_it_was_paid(status: Json) -> Json:
    """The status as it was once the records were uploaded, as a merge patch of a later one."""
    (part,) = status["parts"]
    uploaded = {name: part[name] for name in ("round", "part", "records", "size", "digest", "inputFileId")}
    return {**dict.fromkeys(status), **{name: status[name] for name in _UPLOADED}, "parts": [uploaded]}


@pytest.mark.parametrize("meanwhile", ["it runs", "it was finished"])
async def test_a_batch_that_the_restored_status_does_not_know_is_not_created_again(
    unattended_workspace: Workspace, start_operator: StartOperator, meanwhile: str
) -> None:
    workspace, control = unattended_workspace, unattended_workspace.cloud.control
    await control.settings(batchRecordSeconds=1000 if meanwhile == "it runs" else 0.01)
    operator = await start_operator(workspace, **BRISK)
    await put_prompts(workspace, [record(f"r{number}", f"p{number}") for number in range(5)])
    await workspace.apply(batch())
    before = await workspace.becomes(KIND, NAME, tells("Running") if meanwhile == "it runs" else complete)
    await operator.kill()
    older = _before_it_was_paid(before["status"])
    await workspace.kube.patch(KIND, NAME, {"status": older}, subresource="status")
    await operator.start()
    found = await workspace.becomes(KIND, NAME, tells("Running") if meanwhile == "it runs" else complete)
    assert found["status"]["id"] == before["status"]["id"]
    await control.settings(batchRecordSeconds=0.01)
    if meanwhile == "it runs":
        await control.advance(5000)
    done = await workspace.becomes(KIND, NAME, complete)
    assert done["status"]["requestCounts"] == {"total": 5, "completed": 5, "failed": 0}
    answers, errors = await published(workspace)
    assert (len(answers), errors) == (5, {})
    assert (len(await batches_in_cloud(workspace)), await count(workspace, CREATE_BATCH)) == (1, 1)
