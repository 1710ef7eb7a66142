"""Keeps an account below its request rate, and prefers requests that stop billing.

`TokenBucket` is the arithmetic; `RateLimiter` waits. One limiter per account, shared by all users of its key.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable


class BudgetSpentError(Exception):
    """A token would take longer than the caller may wait; `retry_after` is the estimated wait in seconds."""

    def __init__(self, retry_after: float) -> None:
        super().__init__(retry_after)
        self.retry_after = retry_after


class TokenBucket:
    """`burst` tokens, refilled at `rate` per second; the last `reserved` of them are for priority requests only.

    While the reserve is full, everybody shares the whole rate; after a use of the reserve, it refills first.
    """

    def __init__(self, rate: float, burst: float, reserved: float, now: float) -> None:
        if rate <= 0 or reserved < 0 or burst < reserved + 1:
            raise ValueError("a token bucket needs rate > 0 and burst >= reserved + 1 >= 1")
        self._rate = rate
        self._burst = burst
        self._reserved = reserved
        self._tokens = burst
        self._at = now

    def wait(self, now: float, *, priority: bool, ahead: int = 0) -> float:
        """Seconds until a token is available, after `ahead` earlier waiters of the same class."""
        self._refill(now)
        floor = 0.0 if priority else self._reserved
        return max(0.0, (floor + ahead + 1 - self._tokens) / self._rate)

    def take(self, now: float) -> None:
        """Take a token, after `wait` has returned 0."""
        self._refill(now)
        self._tokens -= 1

    def _refill(self, now: float) -> None:
        # A clock that jumps back neither adds nor removes tokens.
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._at) * self._rate)
        self._at = now


class RateLimiter:
    """Waits for a token, in order, for a bounded time.

    `burst` defaults to the requests of two seconds, of which a fifth is reserved for priority requests.
    """

    def __init__(
        self,
        rate_per_second: float,
        *,
        burst: float | None = None,
        reserved_share: float = 0.2,
        max_wait_seconds: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        size = max(2.0, 2 * rate_per_second) if burst is None else burst
        self._bucket = TokenBucket(rate_per_second, size, min(size * reserved_share, size - 1), clock())
        self._max_wait = max_wait_seconds
        self._clock = clock
        self._sleep = sleep
        # One waiter of each class checks the bucket at a time; the others queue behind it.
        self._turn = {False: asyncio.Lock(), True: asyncio.Lock()}
        self._waiting = {False: 0, True: 0}

    async def acquire(self, *, priority: bool = False, max_wait_seconds: float | None = None) -> None:
        """Return once a token is taken.

        Raises BudgetSpentError at once if the expected wait is too long, and later if the actual wait becomes so.
        """
        longest = self._max_wait if max_wait_seconds is None else min(self._max_wait, max_wait_seconds)
        deadline = self._clock() + longest
        ahead = self._waiting[priority]
        if self._affordable(deadline, priority=priority, ahead=ahead) == 0 and not ahead:
            self._bucket.take(self._clock())
            return
        self._waiting[priority] += 1
        try:
            async with self._turn[priority]:
                while (wait := self._affordable(deadline, priority=priority)) > 0:
                    await self._sleep(wait)
                self._bucket.take(self._clock())
        finally:
            self._waiting[priority] -= 1

    def _affordable(self, deadline: float, *, priority: bool, ahead: int = 0) -> float:
        now = self._clock()
        wait = self._bucket.wait(now, priority=priority, ahead=ahead)
        if wait > 0 and now + wait > deadline:
            raise BudgetSpentError(wait)
        return wait
