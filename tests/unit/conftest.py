"""What unit tests share."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import pytest_asyncio

from tests.support.virtual_time import VirtualTimeLoop
from tests.unit.flows.managed.world import World, running_world


def pytest_asyncio_loop_factories(
    config: pytest.Config,  # noqa: ARG001 - a hook's arguments are named
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Tests marked with `virtual_time` wait on a clock of their own."""
    return {"loop": VirtualTimeLoop if item.get_closest_marker("virtual_time") else asyncio.new_event_loop}


@pytest.fixture(autouse=True)
def no_public_authorities(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here calls a public server, and every client would read all authorities of the machine: 25 ms each."""
    monkeypatch.setenv("SSL_CERT_FILE", os.devnull)


@pytest_asyncio.fixture
async def world() -> AsyncIterator[World]:
    """The engine over a small API server and a cloud in memory."""
    async with running_world() as made:
        yield made
