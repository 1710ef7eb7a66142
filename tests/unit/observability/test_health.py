"""The health endpoints, asked over a real connection."""

from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import TestServer
from prometheus_client import CollectorRegistry

from relay_operator.observability.health import Heartbeat, health_app
from relay_operator.observability.metrics import Metrics


class _Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class _Replica:
    """One replica's health app, with checks a test can turn."""

    def __init__(self) -> None:
        self.clock = _Clock()
        self.watch = Heartbeat(30, self.clock)
        self.caches: str | None = "still listing"
        self.metrics = Metrics(CollectorRegistry())
        self.server = TestServer(
            health_app(self.metrics, {"watch": self.watch.silence}, {"caches": lambda: self.caches})
        )

    async def get(self, path: str) -> tuple[int, str]:
        async with ClientSession() as session, session.get(self.server.make_url(path)) as answer:
            return answer.status, await answer.text()


@pytest.fixture
async def replica() -> AsyncIterator[_Replica]:
    replica = _Replica()
    async with replica.server:
        yield replica


async def test_a_starting_replica_is_alive_and_not_ready_and_says_why(replica: _Replica) -> None:
    assert await replica.get("/healthz") == (200, "ok\n")
    assert await replica.get("/readyz") == (503, "caches: still listing\n")
    replica.caches = None
    assert await replica.get("/readyz") == (200, "ok\n")


async def test_a_loop_that_fell_silent_is_neither_alive_nor_ready(replica: _Replica) -> None:
    replica.caches = None
    replica.clock.now += 31
    assert await replica.get("/healthz") == (503, "watch: silent for 31 s\n")
    assert (await replica.get("/readyz"))[0] == 503
    replica.watch.beat()
    assert await replica.get("/healthz") == (200, "ok\n")


async def test_metrics_are_served_in_the_text_format(replica: _Replica) -> None:
    replica.metrics.leader.set(1)
    status, text = await replica.get("/metrics")
    assert status == 200
    assert "gpurelay_leader 1.0" in text
