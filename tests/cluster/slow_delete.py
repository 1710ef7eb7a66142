"""A DELETE that the API server has begun to act on, and does not end before the test says so."""

from __future__ import annotations

import asyncio
import base64
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from aiohttp import web

from tests.support.certificates import write_serving_certificate
from tests.support.eventually import PATIENCE_SECONDS, eventually
from tests.support.manifests import ready
from tests.support.process import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace

_PAUSED = "gpurelay.dev/paused"
_FINALIZER = "gpurelay.dev/cloud-resource"
_TYPE = "ValidatingWebhookConfiguration"
_PATH = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


class SlowDelete:
    """The API server asks before it deletes; by then it has read the object, and decided that nothing holds it."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        """By a rehearsal: from then on nothing is deleted without asking."""
        self.began = asyncio.Event()
        self.may_end = asyncio.Event()

    async def answer(self, request: web.Request) -> web.Response:
        review: Manifest = await request.json()
        if review["request"].get("dryRun"):
            self.asked.set()
        else:
            self.began.set()
            await self.may_end.wait()
        allowed = {"uid": review["request"]["uid"], "allowed": True}
        return web.json_response({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": allowed})


@asynccontextmanager
async def slow_delete(workspace: Workspace, folder: Path) -> AsyncIterator[SlowDelete]:
    """Holds every deletion in the workspace's namespace."""
    slow, port = SlowDelete(), free_port()
    write_serving_certificate(folder)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(folder / "apiserver.crt", folder / "apiserver.key")
    app = web.Application()
    app.router.add_post("/", slow.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls).start()
    authority = base64.b64encode((folder / "ca.crt").read_bytes()).decode()
    asked: Manifest = {
        "name": "slow-delete.gpurelay.dev",
        "clientConfig": {"url": f"https://127.0.0.1:{port}/", "caBundle": authority},
        "rules": [{"apiGroups": ["gpurelay.dev"], "apiVersions": ["*"], "resources": ["*"], "operations": ["DELETE"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": workspace.namespace}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 30,
    }
    kube, name = workspace.kube, f"slow-delete-{workspace.namespace}"
    manifest = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": _TYPE, "metadata": {"name": name}}
    await kube.call("POST", _PATH, {**manifest, "webhooks": [asked]})

    async def rehearsed() -> bool:
        await kube.delete("CloudAccount", "default", dryRun=["All"])
        return slow.asked.is_set()

    try:
        await eventually(rehearsed, what="the API server asks before it deletes")
        yield slow
    finally:
        await kube.call("DELETE", f"{_PATH}/{name}")
        await runner.cleanup()


async def go_at_once(
    workspace: Workspace, folder: Path, manifest: Manifest, wanted: Callable[[Manifest | None], object] = ready
) -> None:
    """The object goes once it is as wanted, though its finalizer is there."""
    kind, name, kube = manifest["kind"], manifest["metadata"]["name"], workspace.kube
    await workspace.becomes("CloudAccount", "default")
    await workspace.apply(manifest | {"metadata": {**manifest["metadata"], "annotations": {_PAUSED: "true"}}})
    async with slow_delete(workspace, folder) as slow:
        deletion = asyncio.create_task(kube.delete(kind, name))
        async with asyncio.timeout(PATIENCE_SECONDS):
            await slow.began.wait()
        await kube.annotate(kind, name, {_PAUSED: None})
        created = await workspace.becomes(kind, name, wanted)
        assert created["metadata"]["finalizers"] == [_FINALIZER]
        slow.may_end.set()
        await deletion
    assert await kube.find(kind, name) is None
