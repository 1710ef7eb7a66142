"""`kubectl relay models`, as people run it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.conftest import StartOperator
    from tests.support.workspace import Workspace


async def test_it_tells_what_the_cloud_sells(unattended_workspace: Workspace, start_operator: StartOperator) -> None:
    workspace = unattended_workspace
    none = await workspace.kubectl.relay("models")
    assert none.stdout.startswith("There are no GpuModels.")
    operator = await start_operator(workspace, catalog_account=f"{workspace.namespace}/default")
    status = (await workspace.becomes("GpuModel", "l40s"))["status"]
    told = await workspace.kubectl.relay("models", "-o", "json")
    items = {item["id"]: item for item in json.loads(told.stdout)["items"]}
    assert "catalog" not in items
    assert all(items["l40s"][field] == status[field] for field in ("name", "freeGpus", "pricePerHourCents"))
    assert (await workspace.kubectl.relay("models")).stdout.startswith("MODEL ")
    await operator.kill()  # or else it makes them again
    await workspace.kube.delete_all("GpuModel")
