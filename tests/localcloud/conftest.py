"""Local clouds for their own tests: a process with a frozen clock for each module, an organization for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pytest
import pytest_asyncio

from tests.localcloud.support.receiver import Receiver
from tests.localcloud.support.server import Organization, Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


class StartServer(Protocol):
    """Starts a local cloud of the test's own, with these arguments of `serve`."""

    def __call__(self, *arguments: str) -> Server: ...


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """The module's local cloud; its clock is frozen, and any test may move it on."""
    shared = Server(("--ephemeral", "--clock", "frozen"))
    shared.start()
    yield shared
    shared.stop()


@pytest.fixture
def start_server() -> Iterator[StartServer]:
    """Starts local clouds that the test may kill; all are gone after it."""
    started: list[Server] = []

    def start(*arguments: str) -> Server:
        own = Server(arguments)
        started.append(own)
        own.start()
        return own

    yield start
    for own in started:
        own.kill()


@pytest_asyncio.fixture
async def organization(server: Server) -> Organization:
    """A fresh organization in the module's local cloud, with funds and a key with every scope."""
    return await server.organization()


@pytest_asyncio.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """A receiver of webhooks that takes everything."""
    async with Receiver() as listening:
        yield listening
