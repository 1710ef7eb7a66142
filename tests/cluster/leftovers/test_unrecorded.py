"""Somebody's admission policy takes no status with an id: what was just created cannot be recorded, so it is ended."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.cluster.admission import refusing
from tests.cluster.cloud_log import BY_ITSELF, changes, left
from tests.support.eventually import eventually
from tests.support.kube import RESOURCES
from tests.support.manifests import condition, gpu_cluster, gpu_pod

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace

REFUSAL = "no id is taken"


@pytest.mark.parametrize("manifest", [gpu_pod("one"), gpu_cluster("one", replicas=1)], ids=["pod", "cluster"])
async def test_what_cannot_be_recorded_is_ended(brisk_workspace: Workspace, manifest: Manifest) -> None:
    workspace, kube, kind = brisk_workspace, brisk_workspace.kube, manifest["kind"]
    create, *_, terminate = BY_ITSELF[kind]
    paused = {"name": "rehearsal", "annotations": {"gpurelay.dev/paused": "true"}}
    await workspace.apply({**manifest, "metadata": paused})
    rule = {
        "apiGroups": ["gpurelay.dev"],
        "apiVersions": ["*"],
        "operations": ["UPDATE"],
        "resources": [f"{RESOURCES[kind].plural}/status"],
    }
    elsewhere = f"object.metadata.namespace != '{workspace.namespace}'"
    rehearsal = partial(
        kube.call,
        "PATCH",
        RESOURCES[kind].path(workspace.namespace, "rehearsal", "status"),
        {"status": {"id": "rehearsed"}},
        content_type="application/merge-patch+json",
        params={"dryRun": "All"},
    )
    expression = f"{elsewhere} || !has(object.status) || !has(object.status.id)"
    async with refusing(kube, f"no-ids-{workspace.namespace}", rule, expression, REFUSAL, rehearsal):
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
