"""A cloud on the cluster of this run, with one node of eight H100."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio

from tests.cluster.kubernetes_runtime.served import Served
from tests.cluster.kubernetes_runtime.stage import Stage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.controlplane import Cluster
    from tests.support.kube import Kube


@pytest_asyncio.fixture
async def stage(cluster: Cluster, kube: Kube, tmp_path: Path) -> AsyncIterator[Stage]:
    """It is served, and has room."""
    own = Stage(kube, cluster.kubeconfig, tmp_path / "state")
    await own.node()
    await own.start()
    await own.has_room()
    yield own
    await own.close()


@pytest_asyncio.fixture
async def served(cluster: Cluster, kube: Kube, tmp_path: Path) -> AsyncIterator[Served]:
    """The same as a process."""
    own = Served(kube, cluster.kubeconfig, tmp_path / "state")
    await own.node()
    await own.start()
    await own.has_room()
    yield own
    await own.close()
