"""A provider for each test, on a cloud where nobody else has nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio

from tests.localcloud.support.workloads import remove_shared_nodes, set_organization

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.localcloud.support.server import Organization, Server


@pytest_asyncio.fixture
async def organization(server: Server) -> AsyncIterator[Organization]:
    """A customer, whose clusters wait for nobody's nodes once the test is over."""
    customer = await server.organization()
    yield customer
    for cluster in (await customer.ok("GET", "/v1/orgs/{org}/clusters"))["items"]:
        await customer.ok("POST", f"/v1/clusters/{cluster['id']}/terminate")


@pytest_asyncio.fixture
async def provider(server: Server) -> Organization:
    """An organization that is a provider; what it enrols is all the capacity there is."""
    await remove_shared_nodes(server)
    provider = await server.organization()
    await set_organization(provider, provider=True)
    return provider
