"""GpuModels tell what the cloud sells: made, refreshed, taken away and, without an account, kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest_asyncio

from tests.cluster.conftest import BRISK
from tests.support.eventually import eventually
from tests.support.manifests import condition, gpu_pod, ready, relay_object, stalled

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.conftest import StartOperator
    from tests.support.kube import Manifest
    from tests.support.operator import Operator
    from tests.support.workspace import Workspace

_KIND = "GpuModel"
_LIST = "GET /v1/gpu-models"
_READS = {_LIST, "GET /v1/gpu-availability", "GET /v1/pricing", "GET /v1/locations", "GET /v1/vm-templates"}


@pytest_asyncio.fixture
async def corner(unattended_workspace: Workspace) -> AsyncIterator[Workspace]:
    """A workspace after which no GpuModel is left."""
    yield unattended_workspace
    await unattended_workspace.kube.delete_all(_KIND)


async def _started(corner: Workspace, start_operator: StartOperator, **settings: str) -> Operator:
    return await start_operator(corner, **(BRISK | {"catalog_account": ""} | settings))


async def _reads(corner: Workspace) -> list[str]:
    log = await corner.cloud.control.requests(organization=corner.organization)
    return [one["operation"] for one in log if one["operation"] in _READS]


async def _turns(corner: Workspace, number: int) -> None:
    """Waits until the catalog was read so many more times, and what came of all but the last is written."""
    before = len(await _reads(corner))

    async def more() -> int:
        return len(await _reads(corner)) - before

    await eventually(more, lambda reads: reads >= number * len(_READS))


async def _written(corner: Workspace) -> dict[str, str]:
    return {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in await corner.kube.list(_KIND)}


async def test_models_appear_and_their_free_counts_follow_and_settled_nothing_is_written(
    corner: Workspace, start_operator: StartOperator
) -> None:
    await _started(corner, start_operator)
    whole = await corner.becomes(_KIND, "catalog")
    assert [size["resourceSize"] for size in whole["status"]["cpuSizes"]]
    assert [template["id"] for template in whole["status"]["templates"]]
    assert [place["region"] for place in whole["status"]["locations"]]
    before = (await corner.becomes(_KIND, "l40s"))["status"]
    assert before["pricePerHourCents"] > 0
    assert condition({"status": before}, "Ready")["message"].startswith(f"as the CloudAccount/{corner.namespace}/")

    await corner.apply(gpu_pod(count=2))
    await corner.becomes("GpuPod", "trainer")

    def follows(item: Manifest | None) -> bool:
        return bool((item or {})["status"]["freeGpus"] == before["freeGpus"] - 2)

    await corner.becomes(_KIND, "l40s", follows)
    table = await corner.kubectl("get", "gmodel")
    assert table.splitlines()[0].split()[:5] == ["NAME", "MODEL", "FREE", "LARGEST", "SPOT"]
    await _turns(corner, 2)
    versions = await _written(corner)
    await _turns(corner, 3)
    assert await _written(corner) == versions


async def test_a_model_that_left_goes_what_people_did_is_undone_and_an_empty_list_proves_nothing(
    corner: Workspace, start_operator: StartOperator
) -> None:
    await _started(corner, start_operator)
    await corner.becomes(_KIND, "h100")
    models: dict[str, Any] = await corner.organization.call("GET", "/v1/gpu-models")
    items = [item for item in models["items"] if item["id"] != "h100"]
    control, only = corner.cloud.control, {"organizationId": corner.organization.id}
    fault = await control.fault(_LIST, {"status": 200, "body": {"items": items}}, **only)
    await corner.is_gone(_KIND, "h100")
    await control.end_fault(fault)
    await corner.becomes(_KIND, "h100")

    await corner.apply(relay_object(_KIND, "mine"))
    await corner.is_gone(_KIND, "mine")
    await corner.kube.patch(_KIND, "h100", {"status": {"freeGpus": 4711}}, subresource="status")
    await corner.becomes(_KIND, "h100", lambda item: (item or {})["status"]["freeGpus"] != 4711)

    fault = await control.fault(_LIST, {"status": 200, "body": {"items": []}}, **only)
    await corner.becomes(_KIND, "h100", lambda item: stalled(item) == "CloudUnavailable")
    await control.end_fault(fault)
    await corner.becomes(_KIND, "h100", lambda item: ready(item) and not stalled(item))


async def test_without_its_account_the_last_known_stays_and_says_since_when(
    corner: Workspace, start_operator: StartOperator
) -> None:
    operator = await _started(corner, start_operator, catalog_account=f"{corner.namespace}/default")
    before = await corner.becomes(_KIND, "h100")
    await corner.kube.delete("CloudAccount", "default")
    told = await corner.becomes(_KIND, "h100", lambda item: stalled(item) == "AccountMissing")
    assert told["status"]["freeGpus"] == before["status"]["freeGpus"]
    assert condition(told, "Ready")["status"] == "True"
    since = condition(told, "Stalled")
    assert f"since {since['lastTransitionTime']}" in since["message"]
    assert corner.namespace in since["message"]

    async def said() -> int:
        return sum("the catalog cannot be read" in str(line) for line in operator.log_lines())

    await eventually(said, lambda lines: lines == 1)
    versions = await _written(corner)
    await operator.kill()
    await operator.start()
    await eventually(said, lambda lines: lines == 2)
    assert await _written(corner) == versions


async def test_as_long_as_there_is_no_account_nothing_is_made_and_nobody_is_told(
    corner: Workspace, start_operator: StartOperator
) -> None:
    account = await corner.kube.get("CloudAccount", "default")
    await corner.kube.delete("CloudAccount", "default")
    operator = await _started(corner, start_operator)
    await corner.is_gone("CloudAccount", "default")
    assert await corner.kube.list(_KIND) == []
    assert [line for line in operator.log_lines() if line.get("level") in {"warning", "error"}] == []
    await corner.apply(relay_object("CloudAccount", "late", **account["spec"]))
    await corner.becomes(_KIND, "h100")
