"""Answers that do not fit into their ConfigMap are published where a change of spec.output says, and paid once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.batch_side import (
    CREATE_BATCH,
    KIND,
    NAME,
    batch,
    by_custom_id,
    complete,
    files_in_cloud,
    put_prompts,
    record,
)
from tests.cluster.cloud_log import count
from tests.support.kube import KubeError
from tests.support.manifests import condition, stalled, tells

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.workspace import Workspace

RECORDS = 4000
MAY_NOT_FIT = "OutputMayNotFit"


async def test_answers_that_do_not_fit_are_published_elsewhere_and_paid_once(
    brisk_private_workspace: Workspace, batch_folder: Path
) -> None:
    workspace, control = brisk_private_workspace, brisk_private_workspace.cloud.control
    await control.clock(mode="frozen")
    await control.settings(batchRecordSeconds=0)
    await put_prompts(workspace, [record(str(number)) for number in range(RECORDS)])
    await workspace.apply(batch())
    runs = await workspace.becomes(KIND, NAME, tells("Running"))
    assert "until spec.output names another place" in condition(runs, MAY_NOT_FIT)["message"]
    await _is_refused(workspace, {"configMapRef": {"name": "others"}})

    await control.clock(mode="real")
    told = await workspace.becomes(KIND, NAME, tells("OutputTooLarge"))
    assert stalled(told) == "OutputTooLarge"
    (part,) = told["status"]["parts"]
    assert part["outputFileId"] in condition(told, "Ready")["message"]
    assert part["outputFileId"] in {each["id"] for each in await files_in_cloud(workspace)}
    assert not condition(told, MAY_NOT_FIT)
    assert await workspace.kube.find("ConfigMap", "answers") is None, "nothing is going to be written there"

    taken = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "taken"}, "data": {"ca.crt": "trusted"}}
    await workspace.apply(taken)
    await workspace.kube.patch(KIND, NAME, {"spec": {"output": {"configMapRef": {"name": "taken"}}}})
    told = await workspace.becomes(KIND, NAME, tells("OutputExists"))
    assert stalled(told) == "OutputExists"

    folder = batch_folder / workspace.kube.namespace
    folder.mkdir()
    output = {"configMapRef": None, "url": f"file://{folder}"}
    await workspace.kube.patch(KIND, NAME, {"spec": {"output": output}})
    done = await workspace.becomes(KIND, NAME, complete)
    assert len(by_custom_id((folder / "output.jsonl").read_text())) == RECORDS
    assert done["status"]["output"]["lines"] == RECORDS
    assert sorted(path.name for path in folder.iterdir()) == ["errors.jsonl", "output.jsonl", "result.json"]
    assert (await workspace.kube.get("ConfigMap", "taken"))["data"] == {"ca.crt": "trusted"}
    assert await count(workspace, CREATE_BATCH) == 1
    assert await files_in_cloud(workspace) == []
    await _is_refused(workspace, {"url": f"file://{folder}/elsewhere"})


async def _is_refused(workspace: Workspace, output: dict[str, object]) -> None:
    with pytest.raises(KubeError) as refused:
        await workspace.kube.patch(KIND, NAME, {"spec": {"output": output}})
    assert "output cannot be changed" in refused.value.message
