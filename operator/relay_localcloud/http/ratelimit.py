"""The rate limit (section 7, 429): off unless `rateLimitPerSecond` is set; in real time."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from starlette.types import ASGIApp, Receive, Scope, Send

from relay_localcloud.http.errors import ApiError, ErrorAnswer
from relay_localcloud.http.exchange import exchange_of
from relay_localcloud.kernel.store import Store


@dataclass
class _Bucket:
    tokens: float
    at: float


class RateLimiter:
    """One token bucket an organization, which holds what one second allows, and at least one request."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._buckets: dict[str, _Bucket] = {}

    def seconds_to_wait(self, organization_id: str, per_second: float) -> float:
        """0 where the request may pass, which takes its token; else how long until one could."""
        now = self._monotonic()
        size = max(per_second, 1.0)
        bucket = self._buckets.setdefault(organization_id, _Bucket(size, now))
        bucket.tokens = min(size, bucket.tokens + (now - bucket.at) * per_second)
        bucket.at = now
        if bucket.tokens >= 1:
            bucket.tokens -= 1
            return 0.0
        return (1 - bucket.tokens) / per_second

    def forget(self) -> None:
        """Begin again with full buckets."""
        self._buckets.clear()


class RateLimit:
    """Answers 429 with Retry-After in whole seconds once an organization sends more than the setting allows."""

    def __init__(self, app: ASGIApp, store: Store, limiter: RateLimiter, refused: ErrorAnswer) -> None:
        self._app = app
        self._store = store
        self._limiter = limiter
        self._refused = refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 429."""
        principal, per_second = exchange_of(scope).principal, self._store.settings.rate_limit_per_second
        if principal is not None and per_second:
            wait = self._limiter.seconds_to_wait(principal.organization_id, per_second)
            if wait > 0:
                message = f"More than {per_second:g} requests a second; try again later."
                limited = ApiError(429, message, headers={"Retry-After": str(max(1, math.ceil(wait)))})
                await self._refused(limited, scope)(scope, receive, send)
                return
        await self._app(scope, receive, send)
