"""A server behind an image, for each test that wants one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio

from tests.localcloud.support.gateway import Upstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest_asyncio.fixture
async def upstream() -> AsyncIterator[Upstream]:
    """A server that a test puts behind an image."""
    async with Upstream() as listening:
        yield listening
