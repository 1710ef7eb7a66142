"""A scripted server, a time that only tests move, and a Cloud that uses both."""

import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from relay_client import CallPolicy, Cloud, Runtime
from tests.unit.client.scripted import ScriptedServer, scripted_server

QUICK = CallPolicy(connect_seconds=0.5, pool_seconds=0.2, attempt_seconds=0.3, total_seconds=0.5)
KEY = "or_test_key_0123456789"


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
