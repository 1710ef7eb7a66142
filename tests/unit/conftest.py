"""What unit tests share."""

import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.unit.flows.managed.world import World, running_world


@pytest.fixture(autouse=True)
def no_public_authorities(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here calls a public server, and every client would read all authorities of the machine: 25 ms each."""
    monkeypatch.setenv("SSL_CERT_FILE", os.devnull)


@pytest_asyncio.fixture
async def world() -> AsyncIterator[World]:
    """The engine over a small API server and a cloud in memory."""
    async with running_world() as made:
        yield made
