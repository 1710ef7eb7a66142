"""A batch that is deleted is cancelled, its answers so far are published, and nothing of it stays in the cloud."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.batch_side import (
    CANCEL_BATCH,
    CREATE_BATCH,
    KIND,
    NAME,
    UPLOAD,
    batch,
    batches_in_cloud,
    complete,
    files_in_cloud,
    is_cancelled,
    published,
    put_prompts,
    record,
    runs_slowly,
    unreadable,
)
from tests.cluster.cloud_log import count
from tests.cluster.slow_delete import go_at_once
from tests.support.eventually import eventually
from tests.support.manifests import condition, stalled, tells

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace

ALL = [record(f"r{number}", f"p{number}") for number in range(5)]
PAUSED = pytest.mark.parametrize("annotation", ["gpurelay.dev/paused", "gpurelay.dev/plan-only"])


async def _half_done(workspace: Workspace, **spec: Any) -> None:
    await runs_slowly(workspace, ALL, **spec)
    await workspace.cloud.control.advance(230)


async def _gone(workspace: Workspace) -> None:
    """The object goes while the clock goes on, which ends nothing before the operator does."""
    await is_cancelled(workspace)

    async def there() -> Manifest | None:
        await workspace.cloud.control.advance(5)
        return await workspace.kube.find(KIND, NAME)

    await eventually(there, lambda item: item is None, what="the end of the object")


async def test_the_answers_so_far_are_published_before_the_object_goes(brisk_private_workspace: Workspace) -> None:
    workspace = brisk_private_workspace
    await _half_done(workspace)
    await workspace.kube.delete(KIND, NAME)
    await _gone(workspace)
    answers, errors = await published(workspace)
    assert 2 <= len(answers) < 5
    assert errors == {}
    assert [each["status"] for each in await batches_in_cloud(workspace)] == ["cancelled"]
    assert await files_in_cloud(workspace) == []


async def test_while_the_cloud_cannot_be_read_what_runs_is_cancelled_all_the_same(
    brisk_private_workspace: Workspace,
) -> None:
    workspace = brisk_private_workspace
    await _half_done(workspace)
    async with unreadable(workspace):
        await workspace.kube.delete(KIND, NAME)
        await is_cancelled(workspace)
        await workspace.becomes(KIND, NAME, lambda item: stalled(item) == "CloudUnavailable")
        assert await count(workspace, CANCEL_BATCH) == 1
    await _gone(workspace)
    assert [each["status"] for each in await batches_in_cloud(workspace)] == ["cancelled"]


async def test_with_discard_nothing_is_published(brisk_private_workspace: Workspace) -> None:
    workspace = brisk_private_workspace
    await _half_done(workspace, deletionPolicy="Discard")
    await workspace.kube.delete(KIND, NAME)
    await _gone(workspace)
    assert await workspace.kube.find("ConfigMap", "answers") is None
    assert [each["status"] for each in await batches_in_cloud(workspace)] == ["cancelled"]
    assert await files_in_cloud(workspace) == []


async def test_with_orphan_the_cloud_goes_on(brisk_private_workspace: Workspace) -> None:
    workspace = brisk_private_workspace
    await _half_done(workspace, deletionPolicy="Orphan")
    await workspace.kube.delete(KIND, NAME)
    await workspace.is_gone(KIND, NAME)
    assert [each["status"] for each in await batches_in_cloud(workspace)] == ["in_progress"]


@pytest.mark.parametrize("refused", [0, 5], ids=["", "whose cancelling fails"])
@pytest.mark.parametrize("replaced", [True, False], ids=["a namesake", "nothing"])
async def test_what_is_paid_for_while_a_batch_is_forced_away_is_cancelled(
    brisk_private_workspace: Workspace, *, replaced: bool, refused: int
) -> None:
    """Its create is answered only when another object, or none, has its name."""
    workspace = brisk_private_workspace
    control, organization = workspace.cloud.control, workspace.organization
    await control.settings(batchRecordSeconds=100)
    await put_prompts(workspace, ALL)
    await workspace.becomes("CloudAccount", "default")
    fault = await control.fault(CREATE_BATCH, {"delaySeconds": 3}, organizationId=organization.id, count=1)
    if refused:
        await control.fault(CANCEL_BATCH, {"status": 503}, organizationId=organization.id, count=refused)
    await workspace.apply(batch())
    await eventually(lambda: control.was_met(fault), what="the create is under way")
    await workspace.force_away(KIND, NAME)
    if replaced:
        await workspace.apply(batch(output={"configMapRef": {"name": "others"}}))
        await workspace.becomes(KIND, NAME, tells("Running"))

    async def states() -> list[str]:
        return sorted(each["status"] for each in await batches_in_cloud(workspace))

    wanted = ["cancelled", "in_progress"] if replaced else ["cancelled"]
    await eventually(states, lambda seen: seen == wanted, what="what was made for the former one is cancelled")
    assert await count(workspace, CANCEL_BATCH) == refused + 1


async def test_the_annotation_abandon_lets_go_without_touching_the_cloud(brisk_private_workspace: Workspace) -> None:
    workspace = brisk_private_workspace
    await _half_done(workspace)
    await workspace.kube.annotate(KIND, NAME, {"gpurelay.dev/abandon": "true"})
    await workspace.kube.delete(KIND, NAME)
    await workspace.is_gone(KIND, NAME)
    assert [each["status"] for each in await batches_in_cloud(workspace)] == ["in_progress"]


@PAUSED
async def test_while_paused_nothing_is_sent(brisk_workspace: Workspace, annotation: str) -> None:
    workspace = brisk_workspace
    await put_prompts(workspace, ALL)
    manifest = batch()
    manifest["metadata"]["annotations"] = {annotation: "true"}
    await workspace.apply(manifest)
    await workspace.becomes(KIND, NAME, tells("Paused"))
    assert await count(workspace, UPLOAD, CREATE_BATCH) == 0
    await workspace.kube.annotate(KIND, NAME, {annotation: None})
    await workspace.becomes(KIND, NAME, complete)


@PAUSED
async def test_while_paused_nothing_is_cancelled(brisk_private_workspace: Workspace, annotation: str) -> None:
    workspace = brisk_private_workspace
    await _half_done(workspace)
    await workspace.kube.annotate(KIND, NAME, {annotation: "true"})
    await workspace.becomes(KIND, NAME, lambda item: condition(item, "Paused"))
    await workspace.kube.delete(KIND, NAME)
    await workspace.kube.annotate(KIND, NAME, {"gpurelay.dev/reconcile-at": "while deleting"})
    held = await workspace.becomes(KIND, NAME, lambda item: (item or {})["status"].get("reconcileAt"))
    assert "deletionTimestamp" in held["metadata"]
    assert await count(workspace, CANCEL_BATCH) == 0
    await workspace.kube.annotate(KIND, NAME, {annotation: None})
    await _gone(workspace)
    assert [each["status"] for each in await batches_in_cloud(workspace)] == ["cancelled"]


async def test_a_finished_batch_goes_after_its_time_to_live_and_its_answers_stay(brisk_workspace: Workspace) -> None:
    workspace = brisk_workspace
    await put_prompts(workspace, ALL)
    await workspace.apply(batch(ttlSecondsAfterFinished=1))
    await eventually(workspace.kube.looking_at("ConfigMap", "answers"), what="the answers")
    await workspace.is_gone(KIND, NAME)
    answers, _ = await published(workspace)
    assert len(answers) == 5


async def test_a_finished_batch_is_deleted_at_once_though_the_cloud_is_down(brisk_private_workspace: Workspace) -> None:
    workspace = brisk_private_workspace
    await put_prompts(workspace, ALL)
    await workspace.apply(batch())
    await workspace.becomes(KIND, NAME, complete)
    await workspace.cloud.process.kill()
    await workspace.kube.delete(KIND, NAME)
    await workspace.is_gone(KIND, NAME)


@pytest.mark.parametrize("on_existing", ["Fail", "Replace"])
async def test_a_namespace_goes_with_a_batch_that_runs(brisk_private_workspace: Workspace, on_existing: str) -> None:
    workspace, output = brisk_private_workspace, {"configMapRef": {"name": "answers"}, "onExisting": on_existing}
    if on_existing == "Replace":  # which claims nothing
        await workspace.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "answers"}})
    await _half_done(workspace, output=output)
    await workspace.kube.patch("ConfigMap", "answers", {"metadata": {"finalizers": ["example.com/held"]}})
    await workspace.kube.delete("Namespace", workspace.namespace)
    await workspace.kube.delete(KIND, NAME)  # as the namespace's controller does
    await _gone(workspace)
    await workspace.kube.patch("ConfigMap", "answers", {"metadata": {"finalizers": None}})
    assert [each["status"] for each in await batches_in_cloud(workspace)] == ["cancelled"]
    kept = {each["purpose"] for each in await files_in_cloud(workspace)}
    assert "batch_output" in kept, "what could not be published stays in the cloud"


async def test_an_account_stays_while_a_batch_needs_it_and_not_for_one_that_is_finished(
    brisk_private_workspace: Workspace,
) -> None:
    workspace = brisk_private_workspace
    await _half_done(workspace)
    await workspace.kube.delete("CloudAccount", "default")
    told = await workspace.becomes("CloudAccount", "default", lambda item: stalled(item) == "InUse")
    assert "1 InferenceBatches that are not finished" in condition(told, "Stalled")["message"]
    await workspace.cloud.control.clock(mode="real")
    await workspace.cloud.control.settings(batchRecordSeconds=0)
    await workspace.cloud.control.advance(500)
    await workspace.becomes(KIND, NAME, complete)
    await workspace.is_gone("CloudAccount", "default")


async def test_one_that_goes_in_spite_of_its_finalizer_ends_as_any_other(
    brisk_private_workspace: Workspace, tmp_path: Path
) -> None:
    workspace = brisk_private_workspace
    await workspace.cloud.control.clock(mode="frozen")
    await workspace.cloud.control.settings(batchRecordSeconds=100)
    await put_prompts(workspace, ALL)
    await go_at_once(workspace, tmp_path, batch(), tells("Running"))

    await is_cancelled(workspace)

    async def ended() -> list[str]:
        await workspace.cloud.control.advance(5)
        return [each["status"] for each in await batches_in_cloud(workspace)]

    await eventually(ended, lambda states: states == ["cancelled"], what="it is cancelled")
    await eventually(lambda: files_in_cloud(workspace), lambda files: files == [], what="its files are gone")
