"""A cloud that can list what the specification gives no list of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio

from tests.conftest import QUICK
from tests.support.localcloud import LocalCloud
from tests.support.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.kube import Kube
    from tests.support.operator import Operator


@pytest_asyncio.fixture
async def listing_workspace(
    operator: Operator, kept_cloud: LocalCloud, kube: Kube, tmp_path: Path
) -> AsyncIterator[Workspace]:
    """A workspace in a local cloud of its own that was started with `--list-vms`."""
    assert operator.process.running
    await kept_cloud.process.kill()  # It listens where the shared operator may call.
    own = LocalCloud(tmp_path / "localcloud", kept_cloud.ports, list_vms=True, forks=True)
    await own.start()
    await own.control.settings(**QUICK)
    workspace = await Workspace.create(kube, own, "listing")
    yield workspace
    await workspace.remove()
    await own.process.kill()
