"""Whose a batch is, on a real API server: copies and keys of others cancel and publish nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest_asyncio

from tests.cluster.batch_model import FailingModel
from tests.cluster.batch_side import (
    CANCEL_BATCH,
    KIND,
    NAME,
    batch,
    batches_in_cloud,
    complete,
    published,
    put_prompts,
    record,
)
from tests.cluster.cloud_log import count
from tests.cluster.identity.by_hand import copy, has_its_own, recreate_account
from tests.support.eventually import eventually
from tests.support.manifests import condition, stalled, tells

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace

FINALIZER = "gpurelay.dev/cloud-resource"


@pytest_asyncio.fixture
async def gate(brisk_workspace: Workspace) -> AsyncIterator[asyncio.Event]:
    """A batch that runs until the event is set."""
    opened = asyncio.Event()
    async with FailingModel(gate=opened) as model:
        await model.serve(brisk_workspace)
        await put_prompts(brisk_workspace, [record("one")])
        await brisk_workspace.apply(batch(model=model.name))
        await brisk_workspace.becomes(KIND, NAME, tells("Running"))
        yield opened
        opened.set()


async def _unended(workspace: Workspace) -> set[str]:
    running = {"validating", "in_progress"}
    return {each["id"] for each in await batches_in_cloud(workspace) if each["status"] in running}


async def _is_cancelled(workspace: Workspace) -> None:
    await eventually(lambda: count(workspace, CANCEL_BATCH), lambda asked: asked == 1, what="one batch is cancelled")


async def test_a_copy_with_its_status_gets_a_batch_of_its_own(brisk_workspace: Workspace, gate: asyncio.Event) -> None:
    workspace, kube = brisk_workspace, brisk_workspace.kube
    original = await kube.get(KIND, NAME)
    await copy(kube, original, "two", output={"configMapRef": {"name": "others"}})
    running = tells("Running")
    copied = await workspace.becomes(KIND, "two", lambda item: running(item) and has_its_own(item))
    one, two = original["status"]["parts"][0]["batchId"], copied["status"]["parts"][0]["batchId"]
    assert await _unended(workspace) == {one, two}
    await kube.delete(KIND, "two")
    await _is_cancelled(workspace)
    assert await _unended(workspace) == {one}
    gate.set()
    await workspace.is_gone(KIND, "two")
    await workspace.becomes(KIND, NAME, complete)
    answers, errors = await published(workspace)
    assert (set(answers), errors) == ({"one"}, {})


async def test_an_account_made_again_with_a_key_of_another_organization_ends_no_batch(
    brisk_workspace: Workspace, gate: asyncio.Event
) -> None:
    workspace, kube = brisk_workspace, brisk_workspace.kube
    other = await workspace.cloud.control.create_organization(f"{workspace.namespace}-other")
    await recreate_account(workspace, other.api_key)
    told = await workspace.becomes(KIND, NAME, lambda item: stalled(item) == "IdentityMismatch")
    message = condition(told, "Stalled")["message"]
    assert workspace.organization.id in message
    assert other.id in message
    await kube.delete(KIND, NAME)

    def waits(item: Manifest | None) -> bool:
        return "the deletion waits" in condition(item, "Stalled").get("message", "")

    held = await workspace.becomes(KIND, NAME, waits)
    assert held["metadata"]["finalizers"] == [FINALIZER]
    assert await _unended(workspace) == {held["status"]["parts"][0]["batchId"]}
    await recreate_account(workspace, workspace.organization.api_key)
    await _is_cancelled(workspace)
    gate.set()
    await workspace.is_gone(KIND, NAME)
