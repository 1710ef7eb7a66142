"""A deadline, a budget and the cloud's own day end a batch: what there is is published, and never paid again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.batch_side import (
    CREATE_BATCH,
    KIND,
    NAME,
    batches_in_cloud,
    complete,
    failed,
    files_in_cloud,
    is_cancelled,
    published,
    record,
    runs_slowly,
)
from tests.cluster.cloud_log import count
from tests.support.eventually import eventually
from tests.support.manifests import condition, tells

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace

ALL = [record(f"r{number}", f"p{number}") for number in range(5)]


async def _advanced_to_the_end(workspace: Workspace) -> None:
    """The clock goes on until the batch in the cloud is in a final state."""

    async def ended() -> bool:
        await workspace.cloud.control.advance(5)
        return all(
            each["status"] in {"cancelled", "expired", "completed"} for each in await batches_in_cloud(workspace)
        )

    await eventually(ended, what="the end of the batch in the cloud")


async def test_after_its_deadline_a_batch_is_cancelled_and_its_answers_so_far_are_published(
    brisk_private_workspace: Workspace,
) -> None:
    workspace = brisk_private_workspace
    await runs_slowly(workspace, ALL, activeDeadlineSeconds=3600)
    await workspace.cloud.control.advance(230)
    long_ago = {"status": {"startTime": "2026-01-01T00:00:00Z"}}
    await workspace.kube.patch(KIND, NAME, long_ago, subresource="status")
    await workspace.becomes(KIND, NAME, tells("Cancelling"))
    await is_cancelled(workspace)
    await _advanced_to_the_end(workspace)
    done = await workspace.becomes(KIND, NAME, failed("DeadlineExceeded"))
    answers, errors = await published(workspace)
    assert "r0" in answers
    assert len(answers) < 5
    assert errors == {}
    assert "activeDeadlineSeconds" in condition(done, "Failed")["message"]
    assert await files_in_cloud(workspace) == []
    assert await count(workspace, CREATE_BATCH) == 1


async def test_a_budget_that_is_used_up_ends_the_batch(brisk_private_workspace: Workspace) -> None:
    workspace = brisk_private_workspace
    await runs_slowly(workspace, ALL, budget={"maxCostNanoUsd": 150})
    await workspace.cloud.control.advance(230)
    told = await workspace.becomes(KIND, NAME, tells("Cancelling"))
    assert condition(told, "BudgetExceeded")["status"] == "True"
    await is_cancelled(workspace)
    await _advanced_to_the_end(workspace)
    done = await workspace.becomes(KIND, NAME, failed("BudgetExceeded"))
    answers, _ = await published(workspace)
    assert 2 <= len(answers) < 5
    assert done["status"]["usage"]["costNanoUsd"] >= 150


async def test_a_larger_budget_lets_it_go_on_to_its_end(brisk_private_workspace: Workspace) -> None:
    workspace = brisk_private_workspace
    await runs_slowly(workspace, ALL, budget={"maxCostNanoUsd": 1_000_000_000})
    await _advanced_to_the_end(workspace)
    await workspace.becomes(KIND, NAME, complete)


async def test_records_that_expired_in_the_cloud_are_sent_again_and_what_was_answered_is_kept(
    brisk_private_workspace: Workspace,
) -> None:
    workspace, control = brisk_private_workspace, brisk_private_workspace.cloud.control
    await runs_slowly(workspace, ALL, record_seconds=30_000)
    await control.advance(70_000)
    await control.settings(batchRecordSeconds=0.01)  # of what is sent again, which may be at once
    await control.advance(20_000)
    await control.clock(mode="real")
    done = await workspace.becomes(KIND, NAME, complete)
    answers, errors = await published(workspace)
    assert sorted(answers) == [f"r{number}" for number in range(5)]
    assert errors == {}
    first, second = done["status"]["parts"]
    assert first["state"] == "expired"
    assert first["completed"] + second["completed"] == 5


async def test_without_another_attempt_expired_records_are_told_as_errors(brisk_private_workspace: Workspace) -> None:
    workspace, control = brisk_private_workspace, brisk_private_workspace.cloud.control
    await runs_slowly(workspace, ALL, record_seconds=30_000, retryPolicy={"maxAttempts": 1})
    await control.advance(90_000)
    done = await workspace.becomes(KIND, NAME, complete)
    answers, errors = await published(workspace)
    assert len(answers) + len(errors) == 5
    assert {line["error"]["code"] for line in errors.values()} == {"batch_expired"}
    assert done["status"]["requestCounts"]["failed"] == len(errors)


async def test_a_batch_whose_records_wait_for_funds_says_so(brisk_private_workspace: Workspace) -> None:
    workspace = brisk_private_workspace
    await runs_slowly(workspace, ALL)
    control, own = workspace.cloud.control, workspace.organization.id

    def waits(item: Manifest | None) -> bool:
        return condition(item, "BudgetExceeded").get("reason") == "BalanceExhausted"

    await control.change_organization(own, balanceCents=0, autoStopFloorCents=100)
    told = await workspace.becomes(KIND, NAME, waits)
    assert condition(told, "Ready")["reason"] == "Running"
    assert "records wait until there are funds" in condition(told, "Ready")["message"]
    await control.change_organization(own, balanceCents=100_000)
    await workspace.becomes(KIND, NAME, lambda item: bool(item) and not waits(item))
    await control.clock(mode="real")
    await control.advance(700)
    await workspace.becomes(KIND, NAME, complete)
