"""Objects as deep, or with numbers as large, as the API server takes them: nobody else has to wait for them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from tests.cluster.batch_side import batch
from tests.support.manifests import gpu_pod

if TYPE_CHECKING:
    from pydantic import JsonValue

    from tests.conftest import StartOperator
    from tests.support.workspace import Workspace

LEVELS: Final = (240, 300, 980, 1_020, 5_000)
"""Beyond what pydantic, orjson's writer, Python's json, orjson's reader, and all of them take."""


def _nested(levels: int) -> str:
    """A batch with a record of so many levels, as text: Python's json cannot write it."""
    records = [{"customId": "one", "body": {"deep": "HERE"}}]
    text = json.dumps(batch(f"deep-{levels}", input={"inline": records}))
    return text.replace('"HERE"', '{"a":' * levels + "1" + "}" * levels)


async def test_an_object_that_is_nested_too_deeply_is_told_so_and_stops_nobody(
    unattended_workspace: Workspace, start_operator: StartOperator
) -> None:
    workspace = unattended_workspace
    kubectl = workspace.kubectl
    operator = await start_operator(workspace)
    for levels in LEVELS:
        await kubectl("apply", "--filename=-", stdin=_nested(levels))
    told = "jsonpath={.status.conditions[?(@.type=='Ready')].reason}=Unreadable"
    await kubectl("wait", "inferencebatch", "--all", f"--for={told}", "--timeout=180s")
    await operator.process.kill()
    await operator.start()
    await workspace.apply(gpu_pod("after"))
    await workspace.becomes("GpuPod", "after")
    await kubectl("delete", "inferencebatch", "--all", "--timeout=180s")


async def test_a_number_that_no_machine_word_holds_does_not_hide_its_object(
    unattended_workspace: Workspace, start_operator: StartOperator
) -> None:
    """The API server writes numbers up to 10^21 with all their digits."""
    workspace = unattended_workspace
    kubectl = workspace.kubectl
    await start_operator(workspace)
    records: list[JsonValue] = [{"customId": "one", "body": {"large": 10**20, "small": -(10**20)}}]
    await kubectl("apply", "--filename=-", stdin=json.dumps(batch("large", input={"inline": records})))
    await kubectl("wait", "inferencebatch", "large", "--for=jsonpath={.status.conditions}", "--timeout=180s")
    await kubectl("delete", "inferencebatch", "large", "--timeout=180s")
