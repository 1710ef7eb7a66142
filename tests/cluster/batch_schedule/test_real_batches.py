"""Schedules whose batches are sent to the cloud."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.cluster.batch_schedule.runs import BATCH, KIND, NAME, Runs, told
from tests.cluster.batch_side import batch, batches_in_cloud, complete, published, put_prompts, record
from tests.support.eventually import eventually
from tests.support.manifests import condition

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.operator import Operator
    from tests.support.workspace import Workspace

EACH_ITS_OWN = batch()["spec"] | {"output": {"configMapRef": {"name": "answers-of-{name}"}}}
SPEC = batch()["spec"] | {"output": {"configMapRef": {"name": "answers"}, "onExisting": "Replace"}}


@pytest.fixture
def slow_runs(private_cloud_workspace: Workspace) -> Runs:
    """In a cloud of its own."""
    return Runs(private_cloud_workspace)


async def test_a_batch_that_is_complete_is_told_and_the_next_one_replaces_its_answers(
    runs: Runs, operator: Operator
) -> None:
    workspace = runs.workspace
    await put_prompts(workspace, [record("a", "first night")])
    await runs.create(batchTemplate={"spec": SPEC}, concurrencyPolicy="Forbid")
    await runs.run(0)
    done = await workspace.becomes(BATCH, runs.batch(0), complete)
    when = condition(done, "Complete")["lastTransitionTime"]
    await runs.becomes(lambda item: told(item).get("lastSuccessfulTime") == when and told(item)["activeBatches"] == 0)
    await put_prompts(workspace, [record("a", "second night")])
    await runs.run(1)
    await workspace.becomes(BATCH, runs.batch(1), complete)
    answers, _ = await published(workspace)
    assert answers["a"]["response"]["body"]["choices"][0]["message"]["content"] == "second night"
    assert len(await batches_in_cloud(workspace)) == 2
    mine = {"namespace": workspace.namespace}
    success = partial(operator.metric, "gpurelay_schedule_last_success_timestamp_seconds", schedule=NAME, **mine)
    assert await eventually(success, what="a scrape tells of it") >= datetime.fromisoformat(when).timestamp()
    answered = partial(operator.metric, "gpurelay_batch_records", outcome="answered", **mine)
    await eventually(answered, lambda number: number == 2, what="both answers are counted")


async def test_each_run_publishes_where_a_placeholder_says(runs: Runs) -> None:
    await put_prompts(runs.workspace, [record("a")])
    await runs.create(batchTemplate={"spec": EACH_ITS_OWN})
    for number in range(2):
        await runs.run(number)
        await runs.workspace.becomes(BATCH, runs.batch(number), complete)
        answers, _ = await published(runs.workspace, f"answers-of-{runs.batch(number)}")
        assert list(answers) == ["a"]


async def test_replacing_cancels_the_batch_in_the_cloud(slow_runs: Runs) -> None:
    workspace = slow_runs.workspace
    await workspace.cloud.control.settings(batchRecordSeconds=3600)
    await put_prompts(workspace, [record("a"), record("b")])
    await slow_runs.create(batchTemplate={"spec": SPEC}, concurrencyPolicy="Replace")
    await slow_runs.run(0)
    await _under_way(slow_runs, 1)
    await slow_runs.run(1)
    await slow_runs.left(1)
    await _under_way(slow_runs, 2)
    newest, older = await batches_in_cloud(workspace)
    assert newest["status"] in {"validating", "in_progress"}
    assert older["status"] in {"cancelling", "cancelled"}


async def test_deleting_the_schedule_cancels_what_runs(slow_runs: Runs) -> None:
    workspace = slow_runs.workspace
    await workspace.cloud.control.settings(batchRecordSeconds=3600)
    await put_prompts(workspace, [record("a"), record("b")])
    await slow_runs.create(batchTemplate={"spec": SPEC})
    await slow_runs.run(0)
    await _under_way(slow_runs, 1)
    await workspace.kube.delete(KIND, NAME)
    await slow_runs.left()  # Kubernetes' garbage collector looks for new kinds twice a minute
    (only,) = await batches_in_cloud(workspace)
    assert only["status"] in {"cancelling", "cancelled"}


async def _under_way(runs: Runs, count: int) -> None:
    """So many batches were created in the cloud, and status of the last one names it."""

    async def look() -> list[Manifest]:
        return await batches_in_cloud(runs.workspace)

    await eventually(look, lambda found: len(found) == count, what=f"{count} batches in the cloud")
    named = await runs.workspace.becomes(BATCH, runs.batch(count - 1), lambda item: told(item).get("batchId"))
    assert told(named)["batchId"]
