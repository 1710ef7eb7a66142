"""What the engine's tests share."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.unit.flows.managed.world import World, running_world


@pytest_asyncio.fixture
async def world() -> AsyncIterator[World]:
    """The engine over a small API server and a cloud in memory."""
    async with running_world() as made:
        yield made
