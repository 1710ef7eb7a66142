"""Local clouds for their own tests: a freshly seeded one for each module, an organization for each test."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

import pytest
import pytest_asyncio

from tests.localcloud.support.deployments import BACKENDS
from tests.localcloud.support.modelserver import ModelServer
from tests.localcloud.support.pool import Pool
from tests.localcloud.support.receiver import Receiver
from tests.localcloud.support.server import connections

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.localcloud.support.server import Organization, Server


class StartServer(Protocol):
    """A freshly seeded local cloud of the test's own, with these arguments of `serve`."""

    def __call__(self, *arguments: str) -> Server: ...


@pytest.fixture(scope="session")
def pool() -> Iterator[Pool]:
    """The local clouds of this run."""
    clouds = Pool()
    yield clouds
    clouds.close()


@pytest.fixture(scope="module")
def server(pool: Pool) -> Iterator[Server]:
    """The module's local cloud; its clock is frozen, and any test may move it on."""
    shared = pool.take(("--ephemeral", "--clock", "frozen"))
    yield shared
    pool.give_back(shared)


@pytest.fixture
def start_server(pool: Pool) -> Iterator[StartServer]:
    """Local clouds that the test may kill; none is another test's at the same time."""
    taken: list[Server] = []

    def start(*arguments: str) -> Server:
        taken.append(pool.take(arguments))
        return taken[-1]

    yield start
    for own in taken:
        pool.give_back(own)


@pytest_asyncio.fixture(autouse=True)
async def one_session() -> AsyncIterator[None]:
    """A test's requests share their connections."""
    async with connections():
        yield


@pytest_asyncio.fixture
async def organization(server: Server) -> Organization:
    """A fresh organization in the module's local cloud, with funds and a key with every scope."""
    return await server.organization()


@pytest_asyncio.fixture
async def early_in_a_month(server: Server) -> None:
    """The module's clock shows the second day of the next month: what a test reads of a month to date is whole."""
    shown = datetime.fromisoformat(await server.advance(0))
    second = (shown.replace(day=1) + timedelta(days=33)).replace(day=2)
    await server.ok("POST", "/clock", {"set": second.isoformat()})


@pytest_asyncio.fixture
async def no_faults_left(server: Server) -> AsyncIterator[None]:
    """Faults that a test sets in the module's local cloud end with it."""
    yield
    await server.ok("DELETE", "/faults")


@pytest_asyncio.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """A receiver of webhooks that takes everything."""
    async with Receiver() as listening:
        yield listening


@pytest.fixture
async def behind(organization: Organization) -> AsyncIterator[ModelServer]:
    """A server behind the model `mine`."""
    async with ModelServer() as server:
        families = ["chat_completions"]
        body = {"provider": "openai_compatible", "ref": "mine", "endpoint": server.url, "nativeFamilies": families}
        await organization.ok("POST", BACKENDS.format(model="mine"), body)
        yield server
