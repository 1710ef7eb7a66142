"""A scripted server, a time that only tests move, and a Cloud that uses both."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping

import pytest

from relay_client import CallPolicy, Cloud, Runtime
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.virtual_time import VirtualTimeLoop
from tests.unit.client.scripted import ScriptedServer, scripted_server

QUICK = CallPolicy(connect_seconds=0.5, pool_seconds=0.2, attempt_seconds=0.3, total_seconds=0.5)
KEY = "or_test_key_0123456789"


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Every bound here is reached because nothing comes, not because the machine is slow."""
    return {"loop": VirtualTimeLoop}


class Timeline:
    """A clock that moves when somebody sleeps; it remembers for how long."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def runtime(self, random: Callable[[], float] = lambda: 0.5) -> Runtime:
        """This time, with a chance that is always the same."""
        return Runtime(clock=self.clock, wall_clock=self.clock, sleep=self.sleep, random=random)


@pytest.fixture(autouse=True)
def kept_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection stays fit for use for as long as the machine stands still."""
    monkeypatch.setattr("relay_client.pool._KEEPALIVE_SECONDS", PATIENCE_SECONDS)


@pytest.fixture
def timeline() -> Timeline:
    return Timeline()


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with scripted_server() as running:
        yield running


@pytest.fixture
async def cloud(server: ScriptedServer, timeline: Timeline) -> AsyncIterator[Cloud]:
    """Knows its organization, and waits in the timeline only."""
    policy = CallPolicy(attempt_seconds=5, total_seconds=20)
    made = Cloud(server.url, KEY, organization_id="org_1", policy=policy, runtime=timeline.runtime())
    async with contextlib.aclosing(made):
        yield made
