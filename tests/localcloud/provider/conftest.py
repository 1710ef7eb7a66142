"""A provider for each test, on a cloud where nobody else has nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio

from tests.localcloud.support.workloads import remove_shared_nodes, set_organization

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization, Server


@pytest_asyncio.fixture
async def provider(server: Server) -> Organization:
    """An organization that is a provider; what it enrols is all the capacity there is."""
    await remove_shared_nodes(server)
    provider = await server.organization()
    await set_organization(provider, provider=True)
    return provider
