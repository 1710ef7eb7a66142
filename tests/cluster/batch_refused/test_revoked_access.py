"""An organization that loses access to batches gets 404 for each of them: paid batches are not given up for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.batch_side import (
    CANCEL_BATCH,
    CREATE_BATCH,
    KIND,
    NAME,
    batches_in_cloud,
    complete,
    files_in_cloud,
    published,
    record,
    runs_slowly,
)
from tests.cluster.cloud_log import asked, count
from tests.support.eventually import eventually
from tests.support.manifests import condition, stalled

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace

ALL = [record(f"r{number}", f"p{number}") for number in range(3)]
LIST_BATCHES, GET_FILE = "GET /v1/batches", "GET /v1/files/{id}"
LOOKS = 4
"""Looks after which the brisk operator would believe a 404: it waits two seconds between two of them."""


async def _revoked(workspace: Workspace) -> None:
    """The organization loses access, and the operator has looked often enough since."""
    await workspace.cloud.control.change_organization(workspace.organization.id, batchAccess=False)
    before = await count(workspace, LIST_BATCHES)
    told = await workspace.becomes(KIND, NAME, lambda item: stalled(item) == "AccountForbidden")
    assert "no access to batches" in condition(told, "Stalled")["message"]
    await eventually(
        lambda: count(workspace, LIST_BATCHES), lambda looks: looks >= before + LOOKS, what="it looks again and again"
    )
    told = await workspace.becomes(KIND, NAME, lambda item: stalled(item) == "AccountForbidden")
    assert "ending" not in told["status"]


async def _restored(workspace: Workspace) -> None:
    await workspace.cloud.control.change_organization(workspace.organization.id, batchAccess=True)


async def test_what_runs_is_waited_for(brisk_private_workspace: Workspace) -> None:
    workspace = brisk_private_workspace
    await runs_slowly(workspace, ALL)
    await _revoked(workspace)
    await _restored(workspace)
    await workspace.cloud.control.clock(mode="real")
    await workspace.cloud.control.advance(500)
    await workspace.becomes(KIND, NAME, complete)
    answers, _ = await published(workspace)
    assert len(answers) == len(ALL)
    assert (await count(workspace, CREATE_BATCH), await count(workspace, CANCEL_BATCH)) == (1, 0)


async def test_what_is_deleted_is_cancelled_before_the_object_goes(brisk_private_workspace: Workspace) -> None:
    workspace = brisk_private_workspace
    await runs_slowly(workspace, ALL)
    await workspace.cloud.control.change_organization(workspace.organization.id, batchAccess=False)
    await workspace.kube.delete(KIND, NAME)
    await _revoked(workspace)
    await _restored(workspace)

    async def cancelled() -> bool:
        return any(one["status"] < 400 for one in await asked(workspace, CANCEL_BATCH))

    await eventually(cancelled, what="the cancellation")

    async def there() -> Manifest | None:
        await workspace.cloud.control.advance(5)
        return await workspace.kube.find(KIND, NAME)

    await eventually(there, lambda item: item is None, what="the end of the object")
    assert [each["status"] for each in await batches_in_cloud(workspace)] == ["cancelled"]
    assert await files_in_cloud(workspace) == []


async def test_paid_answers_are_published_once_access_is_back(brisk_private_workspace: Workspace) -> None:
    workspace, control = brisk_private_workspace, brisk_private_workspace.cloud.control
    await runs_slowly(workspace, ALL)
    fault = await control.fault(GET_FILE, {"status": 503}, organizationId=workspace.organization.id)
    await control.advance(500)

    def is_publishing(item: Manifest | None) -> bool:
        return "begunAt" in ((item or {}).get("status") or {}).get("output", {})

    await workspace.becomes(KIND, NAME, is_publishing)
    await control.change_organization(workspace.organization.id, batchAccess=False)
    await control.end_fault(fault)
    await _revoked(workspace)
    await _restored(workspace)
    await workspace.becomes(KIND, NAME, complete)
    answers, _ = await published(workspace)
    assert len(answers) == len(ALL)
