"""The watch on a real API server: what others do reaches the cache, and what it knows does not pass through kopf."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from relay_kube.kube import ResourceType
from relay_operator.api.meta import ObjectKey
from relay_operator.watch import Absence, watch
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.faultproxy import FaultProxy
from tests.support.faultrules import Breakage, BreakWatches
from tests.support.manifests import gpu_pod
from tests.unit.watch.listener import Listener

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.conftest import SharedOperator
    from tests.support.kube import Kube, Manifest


POD = ResourceType("gpupods", "gpurelay.dev", "v1alpha1")


def _keep_signals() -> None:
    """A test ends by no signal."""


@pytest_asyncio.fixture
async def namespace(kube: Kube, shared_operator: SharedOperator) -> str:
    """One that no operator looks after."""
    await shared_operator.operator.stop()
    kube.namespace = f"watched-{secrets.token_hex(3)}"
    await kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": kube.namespace}})
    return kube.namespace


@asynccontextmanager
async def watching(namespace: str) -> AsyncIterator[Listener]:
    listener = Listener()
    task = asyncio.create_task(
        watch(listener, {"GpuPod": POD}, (namespace,), _keep_signals, Absence(1.0, _keep_signals))
    )
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            yield listener
    finally:
        task.cancel()
        await asyncio.wait([task])


def _version(item: Manifest) -> str:
    return str(item["metadata"]["resourceVersion"])


async def test_what_others_do_reaches_the_cache_and_what_it_knows_does_not_come_again(
    kube: Kube, namespace: str, operator_kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(operator_kubeconfig))
    await kube.create(gpu_pod("there-before"))
    async with watching(namespace) as listener:
        assert (await listener.told.get())[0] == "there-before"
        made = await kube.create(gpu_pod("a"))
        assert await listener.told.get() == ("a", _version(made))
        made["metadata"]["resourceVersion"] = str(2**62)
        listener.cache.put(ObjectKey("GpuPod", namespace, "a"), made)
        for note in ("one", "two"):
            await kube.apply({**gpu_pod("a"), "metadata": {"name": "a", "annotations": {"note": note}}})
        await kube.delete("GpuPod", "a")
        assert await listener.told.get() == ("a", "gone")


async def test_what_was_made_while_a_watch_was_too_old_reaches_the_cache(
    kube: Kube, namespace: str, operator_kubeconfig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = FaultProxy(tmp_path / "proxy", operator_kubeconfig, "http://127.0.0.1:9")
    await proxy.start()
    monkeypatch.setenv("KUBECONFIG", str(proxy.kubeconfig))
    try:
        await kube.create(gpu_pod("listed"))
        async with watching(namespace) as listener:
            assert (await listener.told.get())[0] == "listed"
            await kube.create(gpu_pod("a"))
            assert (await listener.told.get())[0] == "a"
            assert proxy.break_watches(BreakWatches(Breakage.ERROR, 410)) == 1
            await kube.create(gpu_pod("b"))
            while (await listener.told.get())[0] != "b":
                continue
            await kube.create(gpu_pod("c"))
            while (await listener.told.get())[0] != "c":
                continue
    finally:
        await proxy.stop()
