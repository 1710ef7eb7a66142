"""Loading the HTTP client takes a fifth of a start: only those who have subscriptions pay for it."""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.localcloud.support.events import create_webhook
from tests.localcloud.support.server import Server
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.localcloud.support.receiver import Receiver

TELLS_WHAT_IT_LOADS = (sys.executable, "-X", "importtime", "-m", "relay_localcloud")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], Server]]:
    """Starts the cloud with the same state again."""
    started: list[Server] = []

    def again() -> Server:
        started.append(Server(("--state", str(tmp_path), "--clock", "frozen"), TELLS_WHAT_IT_LOADS))
        started[-1].start()
        return started[-1]

    yield again
    for each in started:
        each.kill()


def loaded(server: Server) -> set[str]:
    """Every module that it has loaded so far, as its interpreter tells."""
    return {line.rpartition("|")[2].strip() for line in server.log.splitlines() if line.startswith("import time:")}


async def client_of(server: Server) -> set[str]:
    """What it has loaded of its HTTP client."""
    return {module for module in loaded(server) if module.partition(".")[0] == "aiohttp"}


async def test_a_cloud_without_subscriptions_never_loads_its_http_client(start: Callable[[], Server]) -> None:
    server = start()
    await server.seeded().ok("GET", "/v1/orgs/{org}/webhooks")
    assert await asyncio.to_thread(server.stop) == 0  # what is being loaded is waited for
    assert "relay_localcloud.webhooks.deliveries" in loaded(server)
    assert await client_of(server) == set()


async def test_who_subscribes_lets_it_be_loaded_at_once_and_at_the_next_start(
    start: Callable[[], Server], receiver: Receiver
) -> None:
    first = start()
    await create_webhook(first.seeded(), receiver)
    await eventually(partial(client_of, first), lambda modules: "aiohttp.client" in modules)
    first.kill()
    await eventually(partial(client_of, start()), lambda modules: "aiohttp.client" in modules)
