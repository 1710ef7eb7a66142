"""The stage of histories: two operators, of which one leads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio

from tests.faults.explorer.expedition import Expedition
from tests.faults.stage import LEASE, Stage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import pytest

    from tests.conftest import SharedOperator
    from tests.support.controlplane import Cluster
    from tests.support.localcloud import LocalCloud


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def expedition(
    cluster: Cluster,
    operator_kubeconfig: Path,
    shared_operator: SharedOperator,
    fault_cloud: LocalCloud,
    plan_folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Expedition]:
    """Plays histories on the shared API server. The shared operator rests meanwhile."""
    await shared_operator.operator.stop()
    folder = tmp_path_factory.mktemp("expedition")
    async with Stage(folder, cluster, operator_kubeconfig, fault_cloud, LEASE, replicas=2, under=()) as stage:
        yield Expedition(stage, plan_folder)
