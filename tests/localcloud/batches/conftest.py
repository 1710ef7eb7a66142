"""Executors of tool rounds, on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.localcloud.support.executors import HttpExecutor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.localcloud.support.server import Server


@pytest.fixture
async def loopback_is_admitted(server: Server) -> AsyncIterator[None]:
    """Executors may be on this machine."""
    await server.ok("PATCH", "/settings", {"allowLoopbackExecutors": True})
    yield
    await server.ok("PATCH", "/settings", {"allowLoopbackExecutors": False})


@pytest.fixture
async def executor() -> AsyncIterator[HttpExecutor]:
    """An executor that is called over HTTP."""
    async with HttpExecutor() as listening:
        yield listening
