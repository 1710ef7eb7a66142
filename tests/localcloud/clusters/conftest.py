"""Organizations for tests of clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio

from tests.localcloud.support.workloads import remove_shared_nodes

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization, Server


@pytest_asyncio.fixture
async def organization(server: Server) -> Organization:
    """An organization without any node: each test brings in what it needs."""
    await remove_shared_nodes(server)
    return await server.organization()
