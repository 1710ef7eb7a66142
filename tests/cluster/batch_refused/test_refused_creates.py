"""What the cloud says no to: told with its reason, tried again where that helps, never paid twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.batch_side import (
    CREATE_BATCH,
    KIND,
    NAME,
    UPLOAD,
    batch,
    batches_in_cloud,
    complete,
    failed,
    files_in_cloud,
    inference,
    put_prompts,
    record,
)
from tests.cluster.cloud_log import count
from tests.support.eventually import eventually
from tests.support.manifests import condition, stalled, tells

if TYPE_CHECKING:
    from tests.support.workspace import Workspace


def _refusal(status: int, message: str = "no", **headers: str) -> dict[str, Any]:
    error = {"message": message, "type": "error", "code": None}
    return {"status": status, "body": {"error": error}, "headers": headers}


TRIED_AGAIN = {
    "too many uploads": (UPLOAD, _refusal(429, **{"Retry-After": "1"})),
    "an upload in a bad state": (UPLOAD, _refusal(409)),
    "an upload with a hiccup": (UPLOAD, _refusal(503)),
    "too many requests": (CREATE_BATCH, _refusal(429, **{"Retry-After": "1"})),
    "a create in a bad state": (CREATE_BATCH, _refusal(409)),
}


@pytest.mark.parametrize(("operation", "effect"), TRIED_AGAIN.values(), ids=TRIED_AGAIN)
async def test_what_may_pass_is_tried_again(brisk_workspace: Workspace, operation: str, effect: dict[str, Any]) -> None:
    await brisk_workspace.becomes("CloudAccount", "default")
    own = brisk_workspace.organization.id
    await brisk_workspace.cloud.control.fault(operation, effect, count=1, organizationId=own)
    await put_prompts(brisk_workspace, [record("a")])
    await brisk_workspace.apply(batch())
    done = await brisk_workspace.becomes(KIND, NAME, complete)
    assert "failures" not in done["status"]
    assert await count(brisk_workspace, operation) == 2
    assert len(await batches_in_cloud(brisk_workspace)) == 1


async def test_a_create_that_is_wrong_fails_the_batch_and_nothing_is_left(brisk_workspace: Workspace) -> None:
    await brisk_workspace.becomes("CloudAccount", "default")
    own = brisk_workspace.organization.id
    effect = _refusal(400, "metadata has too many keys")
    await brisk_workspace.cloud.control.fault(CREATE_BATCH, effect, count=1, organizationId=own)
    await put_prompts(brisk_workspace, [record("a")])
    await brisk_workspace.apply(batch())
    done = await brisk_workspace.becomes(KIND, NAME, failed("BatchRefused"))
    assert "metadata has too many keys" in condition(done, "Failed")["message"]
    assert await count(brisk_workspace, CREATE_BATCH) == 1
    assert await files_in_cloud(brisk_workspace) == []


async def test_without_funds_a_batch_waits_and_goes_on_when_they_are_back(brisk_workspace: Workspace) -> None:
    control, own = brisk_workspace.cloud.control, brisk_workspace.organization.id
    await brisk_workspace.becomes("CloudAccount", "default")
    await control.change_organization(own, balanceCents=0, autoStopFloorCents=100)
    await put_prompts(brisk_workspace, [record("a")])
    await brisk_workspace.apply(batch())
    told = await brisk_workspace.becomes(KIND, NAME, tells("WaitingForBudget"))
    assert condition(told, "BudgetExceeded")["status"] == "True"
    await control.change_organization(own, balanceCents=100_000)
    await brisk_workspace.becomes(KIND, NAME, complete)


async def test_an_organization_without_access_to_batches_is_told_so(brisk_workspace: Workspace) -> None:
    control, own = brisk_workspace.cloud.control, brisk_workspace.organization.id
    await brisk_workspace.becomes("CloudAccount", "default")
    await control.change_organization(own, batchAccess=False)
    await put_prompts(brisk_workspace, [record("a")])
    await brisk_workspace.apply(batch())
    told = await brisk_workspace.becomes(KIND, NAME, tells("AccountForbidden"))
    assert stalled(told) == "AccountForbidden"
    assert "no access to batches" in condition(told, "Ready")["message"]
    await control.change_organization(own, batchAccess=True)
    await brisk_workspace.becomes(KIND, NAME, complete)


@pytest.mark.parametrize(("suspended", "says"), [(True, "suspended for its balance"), ("review", "under review")])
async def test_a_suspended_organization_is_told_so(
    brisk_workspace: Workspace, suspended: bool | str, says: str
) -> None:
    async def becomes(value: bool | str) -> None:
        await brisk_workspace.cloud.control.change_organization(brisk_workspace.organization.id, suspended=value)

    await brisk_workspace.becomes("CloudAccount", "default")
    await becomes(suspended)
    await put_prompts(brisk_workspace, [record("a")])
    await brisk_workspace.apply(batch())
    told = await brisk_workspace.becomes(KIND, NAME, lambda item: stalled(item) == "AccountSuspended")
    assert says in condition(told, "Stalled")["message"]
    await becomes(False)
    await brisk_workspace.becomes(KIND, NAME, complete)


async def test_an_uploaded_file_that_the_cloud_lost_is_uploaded_again(brisk_workspace: Workspace) -> None:
    control, own = brisk_workspace.cloud.control, brisk_workspace.organization.id
    await brisk_workspace.becomes("CloudAccount", "default")
    await control.fault(CREATE_BATCH, _refusal(429), organizationId=own)
    await put_prompts(brisk_workspace, [record("a")])
    await brisk_workspace.apply(batch())
    await brisk_workspace.becomes(KIND, NAME, tells("RateLimited"))
    (lost,) = await files_in_cloud(brisk_workspace)
    await inference(brisk_workspace, "DELETE", f"/v1/files/{lost['id']}")
    await control.clear_faults()
    await brisk_workspace.becomes(KIND, NAME, complete)
    await eventually(lambda: count(brisk_workspace, UPLOAD), lambda sent: sent == 2, what="a second upload")
