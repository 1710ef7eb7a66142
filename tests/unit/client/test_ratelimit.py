"""The account's request rate: kept, in order, with a reserve for what stops billing."""

import asyncio

import pytest

from relay_client.ratelimit import BudgetSpentError, RateLimiter, TokenBucket
from tests.unit.client.conftest import Timeline


def drained(bucket: TokenBucket, now: float, *, priority: bool = False) -> int:
    """How many requests may go at once."""
    taken = 0
    while bucket.wait(now, priority=priority) == 0:
        bucket.take(now)
        taken += 1
    return taken


def test_a_burst_leaves_the_reserve_to_priority_requests() -> None:
    bucket = TokenBucket(rate=5, burst=10, reserved=2, now=0)
    assert drained(bucket, 0) == 8
    assert drained(bucket, 0, priority=True) == 2
    assert bucket.wait(0, priority=True) == pytest.approx(0.2)


def test_the_whole_rate_is_everybodys_while_the_reserve_is_full() -> None:
    bucket = TokenBucket(rate=5, burst=10, reserved=2, now=0)
    drained(bucket, 0)
    assert sum(drained(bucket, second / 5) for second in range(1, 51)) == 50


def test_a_reserve_that_was_drawn_on_fills_up_first() -> None:
    bucket = TokenBucket(rate=1, burst=5, reserved=2, now=0)
    drained(bucket, 0)
    drained(bucket, 0, priority=True)
    assert bucket.wait(0, priority=False) == pytest.approx(3)
    assert bucket.wait(0, priority=True) == pytest.approx(1)


def test_those_ahead_are_counted_in() -> None:
    bucket = TokenBucket(rate=2, burst=1, reserved=0, now=0)
    bucket.take(0)
    assert bucket.wait(0, priority=False, ahead=3) == pytest.approx(2)


def test_idle_time_fills_the_bucket_to_its_burst_only() -> None:
    bucket = TokenBucket(rate=5, burst=10, reserved=0, now=0)
    drained(bucket, 0)
    assert drained(bucket, 1_000_000) == 10


def test_a_clock_that_goes_back_gives_nothing() -> None:
    bucket = TokenBucket(rate=1, burst=1, reserved=0, now=100)
    bucket.take(100)
    assert bucket.wait(50, priority=False) == pytest.approx(1)
    assert bucket.wait(51, priority=False) == pytest.approx(0)


@pytest.mark.parametrize(("rate", "burst", "reserved"), [(0, 1, 0), (-1, 1, 0), (1, 0, 0), (1, 2, 2), (1, 2, -1)])
def test_a_bucket_that_nobody_could_draw_from_is_refused(rate: float, burst: float, reserved: float) -> None:
    with pytest.raises(ValueError, match="a token bucket needs"):
        TokenBucket(rate, burst, reserved, now=0)


def limiter(timeline: Timeline, rate: float, **settings: float) -> RateLimiter:
    return RateLimiter(rate, clock=timeline.clock, sleep=timeline.sleep, **settings)


@pytest.mark.parametrize("rate", [0.01, 0.5, 1, 10, 1000])
async def test_any_rate_has_a_sensible_burst(rate: float, timeline: Timeline) -> None:
    await limiter(timeline, rate).acquire()
    assert timeline.slept == []


async def test_requests_are_spread_over_time(timeline: Timeline) -> None:
    throttled = limiter(timeline, 10, burst=1, reserved_share=0)
    await asyncio.gather(*(throttled.acquire() for _ in range(31)))
    assert timeline.now == pytest.approx(1003)


class Gate:
    """A sleep that ends when the test says so; then time goes on as in the timeline."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.opened = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        await self.opened.wait()
        await self.timeline.sleep(seconds)

    def limiter(self, **settings: float) -> RateLimiter:
        """One request a second."""
        return RateLimiter(1, clock=self.timeline.clock, sleep=self.sleep, **settings)


@pytest.fixture
def gate(timeline: Timeline) -> Gate:
    return Gate(timeline)


async def test_a_priority_request_passes_those_that_wait(gate: Gate) -> None:
    throttled = gate.limiter(burst=2, reserved_share=0.5)
    await throttled.acquire()
    waiting = [asyncio.ensure_future(throttled.acquire()) for _ in range(5)]
    await asyncio.sleep(0)
    await throttled.acquire(priority=True)
    assert not any(request.done() for request in waiting)
    gate.opened.set()
    await asyncio.gather(*waiting)
    assert gate.timeline.now == pytest.approx(1006)  # the reserve first, then one a second


async def test_a_wait_that_would_be_too_long_is_refused_at_once(gate: Gate) -> None:
    throttled = gate.limiter(burst=1, reserved_share=0, max_wait_seconds=5)
    await throttled.acquire()
    with pytest.raises(BudgetSpentError) as caught:
        await throttled.acquire(max_wait_seconds=0.5)
    assert caught.value.retry_after == pytest.approx(1)
    requests = [asyncio.ensure_future(throttled.acquire()) for _ in range(20)]
    await asyncio.sleep(0)
    refused = [request for request in requests if request.done()]
    assert len(refused) == 15
    assert all(isinstance(request.exception(), BudgetSpentError) for request in refused)
    gate.opened.set()
    await asyncio.gather(*(request for request in requests if request not in refused))
    assert gate.timeline.now == pytest.approx(1005)


async def test_one_that_stops_waiting_gives_its_place_to_the_next(gate: Gate) -> None:
    throttled = gate.limiter(burst=1, reserved_share=0)
    await throttled.acquire()
    waiting = asyncio.ensure_future(throttled.acquire())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    gate.timeline.now += 1
    await throttled.acquire()
    assert gate.timeline.slept == []
