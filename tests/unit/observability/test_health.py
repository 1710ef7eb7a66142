"""The health endpoints, asked over a real connection."""

import asyncio
import threading
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

    def scrapes_last_until(self, end: threading.Event, begun: threading.Semaphore) -> None:
        """Lets every scrape tell that it begun, then last; it gives up if `end` cannot come about meanwhile."""

        def show() -> float:
            begun.release()
            return float(end.wait(10))

        self.metrics.leader.set_function(show)

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


async def test_metrics_that_were_asked_for_by_name_are_served_alone(replica: _Replica) -> None:
    status, text = await replica.get("/metrics?name[]=gpurelay_leader")
    assert (status, [line for line in text.splitlines() if line[0] != "#"]) == (200, ["gpurelay_leader 0.0"])


async def test_a_long_scrape_holds_up_nobody_but_the_next_scrape(replica: _Replica) -> None:
    end, begun = threading.Event(), threading.Semaphore(0)
    replica.scrapes_last_until(end, begun)
    scrapes = [asyncio.create_task(replica.get("/metrics")) for _ in range(3)]
    assert await asyncio.to_thread(begun.acquire, timeout=10)
    for _ in range(20):
        assert (await replica.get("/healthz"))[0] == 200
    assert not begun.acquire(blocking=False)
    end.set()
    for _, text in await asyncio.gather(*scrapes):
        assert "gpurelay_leader 1.0" in text
