"""The operator of the pages: with defaults for accounts that name no URL, every kind, and the catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio

from tests.cluster.conftest import BRISK
from tests.conftest import OPERATOR_NAMESPACE, SharedOperator
from tests.support.forked import OPERATOR
from tests.support.kube import Kube
from tests.support.operator import Operator
from tests.support.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import pytest

    from tests.support.controlplane import Cluster
    from tests.support.localcloud import LocalCloud, Ports


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def reader(
    cluster: Cluster,
    operator_kubeconfig: Path,
    shared_operator: SharedOperator,
    private_cloud_ports: Ports,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Operator]:
    """Ready, watching every namespace; one for all pages."""
    await shared_operator.operator.stop()
    management, inference = private_cloud_ports.urls()
    defaults = {"default_base_url": management, "default_inference_url": inference, "catalog_account": ""}
    folder = tmp_path_factory.mktemp("reader")
    operator = Operator(folder, operator_kubeconfig, OPERATOR_NAMESPACE, (), BRISK | defaults, program=OPERATOR)
    await operator.start()
    yield operator
    await operator.stop()
    async with Kube(cluster.kubeconfig) as kube:
        await kube.delete_all("GpuModel")


@pytest_asyncio.fixture
async def page_workspace(reader: Operator, private_cloud: LocalCloud, kube: Kube) -> AsyncIterator[Workspace]:
    """A namespace, and an organization with an account in a cloud that was just seeded."""
    assert reader.process.running
    own = await Workspace.create(kube, private_cloud, "page")
    yield own
    await own.remove(attended=False)
