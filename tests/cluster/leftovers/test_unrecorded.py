"""Somebody's admission policy takes no status with an id: what was just created cannot be recorded, so it is ended."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.cluster.admission import refusing
from tests.cluster.batch_side import (
    CANCEL_BATCH,
    batch,
    batches_in_cloud,
    complete,
    files_in_cloud,
    published,
    put_prompts,
    record,
)
from tests.cluster.cloud_log import BY_ITSELF, changes, count, left
from tests.support.eventually import eventually
from tests.support.kube import RESOURCES
from tests.support.manifests import condition, gpu_cluster, gpu_pod

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace

REFUSAL = "no id is taken"


@asynccontextmanager
async def _refusing_ids(workspace: Workspace, rehearsal: Manifest) -> AsyncIterator[None]:
    """No status of this kind may have an id meanwhile."""
    kube, kind = workspace.kube, rehearsal["kind"]
    paused = {"name": "rehearsal", "annotations": {"gpurelay.dev/paused": "true"}}
    await workspace.apply({**rehearsal, "metadata": paused})
    rule = {
        "apiGroups": ["gpurelay.dev"],
        "apiVersions": ["*"],
        "operations": ["UPDATE"],
        "resources": [f"{RESOURCES[kind].plural}/status"],
    }
    elsewhere = f"object.metadata.namespace != '{workspace.namespace}'"
    rehearsed = partial(
        kube.call,
        "PATCH",
        RESOURCES[kind].path(workspace.namespace, "rehearsal", "status"),
        {"status": {"id": "rehearsed"}},
        content_type="application/merge-patch+json",
        params={"dryRun": "All"},
    )
    expression = f"{elsewhere} || !has(object.status) || !has(object.status.id)"
    async with refusing(kube, f"no-ids-{workspace.namespace}", rule, expression, REFUSAL, rehearsed):
        yield


@pytest.mark.parametrize("manifest", [gpu_pod("one"), gpu_cluster("one", replicas=1)], ids=["pod", "cluster"])
async def test_what_cannot_be_recorded_is_ended(brisk_workspace: Workspace, manifest: Manifest) -> None:
    workspace, kind = brisk_workspace, manifest["kind"]
    create, *_, terminate = BY_ITSELF[kind]
    async with _refusing_ids(workspace, manifest):
        await workspace.apply(manifest)
        told = await workspace.becomes(
            kind, "one", lambda item: REFUSAL in condition(item, "Stalled").get("message", "")
        )
        assert "id" not in told["status"]
        await eventually(lambda: left(workspace), lambda alive: alive == [], what="it is ended")
    running = await workspace.becomes(kind, "one")
    assert await left(workspace) == [running["status"]["id"]]
    *ended, last = await changes(workspace)
    assert last == create
    assert ended == [create, terminate] * (len(ended) // 2), "the next one waits until the one before is ended"


async def test_a_batch_that_cannot_be_recorded_is_cancelled_and_then_created_again(brisk_workspace: Workspace) -> None:
    workspace = brisk_workspace
    await workspace.cloud.control.settings(batchRecordSeconds=2)
    await put_prompts(workspace, [record("a"), record("b")])
    async with _refusing_ids(workspace, batch("one")):
        await workspace.apply(batch("one"))
        await eventually(lambda: count(workspace, CANCEL_BATCH), what="the first one is cancelled")
    await workspace.becomes("InferenceBatch", "one", complete)
    last, *before = [one["status"] for one in await batches_in_cloud(workspace)]
    assert (last, set(before)) == ("completed", {"cancelled"})
    answers, errors = await published(workspace)
    assert (set(answers), errors) == ({"a", "b"}, {})
    assert await files_in_cloud(workspace) == []
