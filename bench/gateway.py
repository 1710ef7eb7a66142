"""Requests to a workload through the gateway, compared with requests straight to its upstream."""

import asyncio
import statistics
import time
from dataclasses import dataclass

from bench import wire
from bench.answering import answering
from bench.cloud_world import Cloud, cloud
from bench.progress import say
from bench.results import Row
from bench.usage import usage
from bench.wire import Connection

ROUNDS = 7
EXCHANGES = 1_000
CONNECTIONS = 32
BURST_SECONDS = 5.0


async def gateway_rows() -> list[Row]:
    """Measures latency over one connection and throughput over many."""
    async with cloud("real") as servers, answering() as upstream:
        ways = await _ways(servers, upstream.url)
        await _latencies(ways, EXCHANGES)  # warm-up
        say(f"{ROUNDS} rounds of {EXCHANGES:,} requests, straight and through the gateway")
        rounds = [await _latencies(ways, EXCHANGES) for _ in range(ROUNDS)]
        straight, through = (statistics.median(column) for column in zip(*rounds, strict=True))
        added = statistics.median(far - near for near, far in rounds)
        before = usage(servers.pid).cpu
        rate, answered = await _burst(ways.gateway)
        cpu = (usage(servers.pid).cpu - before) / answered
        figure = f"{added * 1e3:.2f} ms (median of {through * 1e3:.2f} ms, straight {straight * 1e3:.2f} ms)"
        return [
            ("what the gateway adds, by the clock", figure, "under 1 ms"),
            (
                "requests a second on a core",
                f"{1 / cpu:,.0f} ({rate:,.0f} by the clock, beside their sender and their upstream)",
                "at least 1,000",
            ),
            ("resident memory", f"{usage(servers.pid).resident / 1e6:.0f} MB", ""),
        ]


@dataclass(frozen=True, slots=True)
class _Ways:
    """The upstream and the gateway, each with a request for the same workload."""

    upstream: "_Way"
    gateway: "_Way"


@dataclass(frozen=True, slots=True)
class _Way:
    url: str
    sent: bytes


async def _ways(servers: Cloud, upstream: str) -> _Ways:
    await servers.server.ok("POST", "/upstreams", {"image": "app:1", "url": upstream})
    await servers.server.ok("PATCH", "/settings", {"placementSeconds": 0, "startSeconds": 0})
    pod = await servers.organization.ok("POST", "/v1/pods", {"image": "app:1", "gpuModelId": "h100"})
    way = _Way(servers.server.ready["gatewayUrl"], servers.request("GET", f"/_w/{pod['id']}/ready"))
    connection = await Connection.open(way.url)
    async with asyncio.timeout(30):
        while (await connection.ask(way.sent)).status != 200:  # noqa: ASYNC110 - a server of its own
            await asyncio.sleep(0.05)
    return _Ways(_Way(upstream, wire.request("GET", "/ready")), way)


async def _latencies(ways: _Ways, exchanges: int) -> tuple[float, float]:
    """Returns the median seconds straight and through the gateway, measured in alternation."""
    near, far = await Connection.open(ways.upstream.url), await Connection.open(ways.gateway.url)
    took = [(await near.timed(ways.upstream.sent), await far.timed(ways.gateway.sent)) for _ in range(exchanges)]
    near.close()
    far.close()
    straight, through = zip(*took, strict=True)
    return statistics.median(straight), statistics.median(through)


async def _burst(way: _Way) -> tuple[float, int]:
    """Returns the replies per second and their number, with one request at a time per connection."""
    answered = 0
    end = time.monotonic() + BURST_SECONDS

    async def asker() -> None:
        nonlocal answered
        connection = await Connection.open(way.url)
        while time.monotonic() < end:
            assert (await connection.ask(way.sent)).status == 200
            answered += 1
        connection.close()

    await asyncio.gather(*(asker() for _ in range(CONNECTIONS)))
    return answered / BURST_SECONDS, answered
