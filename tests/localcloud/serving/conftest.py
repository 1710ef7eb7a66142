"""Deployments take GPUs of a cloud that tests share: every test leaves none behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio

from tests.localcloud.support.deployments import DEPLOYMENTS, delete

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.localcloud.support.server import Organization, Server


@pytest_asyncio.fixture
async def organization(server: Server) -> AsyncIterator[Organization]:
    """A fresh organization, whose deployments are gone after the test."""
    own = await server.organization()
    yield own
    await _clear(own)


@pytest_asyncio.fixture
async def other(server: Server) -> AsyncIterator[Organization]:
    """Another organization, likewise."""
    another = await server.organization()
    yield another
    await _clear(another)


async def _clear(organization: Organization) -> None:
    for deployment in (await organization.ok("GET", DEPLOYMENTS + "?limit=200"))["items"]:
        await delete(organization, deployment["id"])
    await organization.server.advance(1)
