"""An account that names no inference API serves no batches, and holds none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.batch_side import KIND, NAME, batch, put_prompts, record
from tests.support.manifests import condition, stalled, up_to_date

if TYPE_CHECKING:
    from tests.support.workspace import Workspace


async def test_a_batch_that_could_never_be_sent_can_be_deleted(brisk_workspace: Workspace) -> None:
    workspace = brisk_workspace
    await workspace.kube.patch("CloudAccount", "default", {"spec": {"inferenceUrl": None}})
    await workspace.becomes("CloudAccount", "default", up_to_date)
    await put_prompts(workspace, [record("r1", "p1")])
    await workspace.apply(batch())
    told = await workspace.becomes(KIND, NAME, stalled)
    assert "inference" in condition(told, "Stalled")["message"]
    await workspace.kube.delete(KIND, NAME)
    await workspace.is_gone(KIND, NAME)
