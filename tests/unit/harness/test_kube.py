"""The tests' own Kubernetes client."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from tests.support.kube import Kube, KubeError
from tests.support.servers import write_kubeconfig

if TYPE_CHECKING:
    from pathlib import Path


async def _refuse(_: web.BaseRequest) -> web.StreamResponse:
    status = {"kind": "Status", "reason": "Forbidden", "message": "may not watch"}
    return web.Response(status=403, text=json.dumps(status), content_type="application/json")


async def test_a_watch_that_is_refused_raises_and_yields_nothing(tmp_path: Path) -> None:
    runner = web.ServerRunner(web.Server(_refuse))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    kubeconfig = tmp_path / "kubeconfig"
    write_kubeconfig(kubeconfig, {"server": f"http://127.0.0.1:{runner.addresses[0][1]}"}, "token", "default")
    try:
        async with Kube(kubeconfig) as kube:
            with pytest.raises(KubeError, match="403 Forbidden: may not watch"):
                _ = [event async for event in kube.watch("GpuPod")]
    finally:
        await runner.cleanup()
