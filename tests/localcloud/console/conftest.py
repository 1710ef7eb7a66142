"""One browser for every test of the console; each has a context of its own in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.localcloud.support.browsing import Console, console_of, open_browser

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from playwright.async_api import Browser

    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Server


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """The browser of this run."""
    async with open_browser() as started:
        yield started


@pytest.fixture
def fresh(start_server: StartServer) -> Server:
    """A local cloud in which nothing has happened yet; its clock is frozen."""
    return start_server("--ephemeral", "--clock", "frozen")


@pytest_asyncio.fixture(loop_scope="session")
async def console(browser: Browser, fresh: Server) -> AsyncIterator[Console]:
    """The console of the fresh local cloud on a desktop."""
    async with console_of(browser, fresh.ready["consoleUrl"]) as opened:
        yield opened
