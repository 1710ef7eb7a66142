"""What a batch costs the API server: a few writes, however many records it has."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.cluster.batch_side import KIND, NAME, batch, complete, put_prompts, record

if TYPE_CHECKING:
    from tests.support.operator import Operator
    from tests.support.workspace import Workspace

_WRITES = "gpurelay_kubernetes_writes_total"


async def test_a_batch_takes_a_few_writes_however_many_records_it_has(
    brisk_private_workspace: Workspace, brisk: Operator
) -> None:
    workspace = brisk_private_workspace
    await workspace.cloud.control.settings(batchRecordSeconds=0.02)
    await put_prompts(workspace, [record(f"r{number}") for number in range(300)])
    await workspace.becomes("CloudAccount", "default")
    before = await brisk.metric(_WRITES, kind="inferencebatches")
    began = time.monotonic()
    await workspace.apply(batch())
    await workspace.becomes(KIND, NAME, complete)
    written = await brisk.metric(_WRITES, kind="inferencebatches") - before
    seconds = time.monotonic() - began
    # Intent, account of it, parts, marker, id, publication, outcome, cleared; states that the cloud goes through, and
    # progress every five seconds.
    assert written <= 14 + seconds / 5
