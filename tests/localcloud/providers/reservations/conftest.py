"""Capacity of each test's own: what a test finds free, lent or reserved is what it brought in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio

if TYPE_CHECKING:
    from tests.localcloud.support.server import Server


@pytest_asyncio.fixture(autouse=True)
async def no_nodes(server: Server) -> None:
    """Take every node off the platform."""
    for node in (await server.ok("GET", "/nodes"))["items"]:
        await server.ok("PATCH", f"/nodes/{node['id']}", {"removed": True})
