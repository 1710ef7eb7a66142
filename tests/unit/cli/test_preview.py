"""What a preview does with API servers that do not have, or do not show, everything."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from relay_operator.preview import preview

POD: dict[str, Any] = {
    "apiVersion": "gpurelay.dev/v1alpha1",
    "kind": "GpuPod",
    "metadata": {"name": "trainer", "namespace": "ml", "uid": "u", "resourceVersion": "1", "generation": 1},
    "spec": {"image": "pytorch/pytorch:2.9.0", "gpu": {"modelId": "h100", "count": 1}},
}
SERVED = ("gpupods", "cloudaccounts", "clustercloudaccounts")


@pytest.fixture
def all_namespaces() -> bool:
    """Whether the caller may list objects in all namespaces."""
    return True


@pytest_asyncio.fixture
async def proxy(tmp_path: Path, all_namespaces: bool) -> AsyncIterator[Path]:
    """The socket of an API server that has the CRDs of SERVED alone, and no objects."""

    async def answer(request: web.Request) -> web.Response:
        if not all_namespaces and "/namespaces/ml/" not in request.path:
            return web.json_response({"kind": "Status", "reason": "Forbidden"}, status=403)
        if not request.path.endswith(SERVED):
            return web.Response(status=404, text="404 page not found\n")
        return web.json_response({"items": [], "metadata": {"resourceVersion": "1"}})

    runner = web.AppRunner(web.Application())
    runner.app.router.add_get("/{path:.*}", answer)
    await runner.setup()
    await web.UnixSite(runner, str(tmp_path / "api")).start()
    yield tmp_path / "api"
    await runner.cleanup()


@pytest.mark.parametrize("all_namespaces", [True, False], ids=["everywhere", "in one namespace"])
async def test_a_cluster_without_some_crds_still_gets_plans(proxy: Path, all_namespaces: bool) -> None:
    found = await preview(proxy, [POD], "")
    (plan,) = found.plans.values()
    assert plan.reason.startswith("the namespace ml has no CloudAccount named default, ")
    assert bool(found.unlisted) is not all_namespaces
